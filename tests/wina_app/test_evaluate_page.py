"""The Evaluate page's own conduct; what it counts and queues is the controller's."""

from wina_app.views.evaluate_page import EvaluatePage

from wina_core.specs import DENSE, NO_ROTATION, MethodSpec, RotationSpec


def test_choosing_a_plan_asks_for_dense_and_that_plan_alone(qtbot) -> None:
    page = EvaluatePage()
    qtbot.addWidget(page)
    rotation = RotationSpec(mode="per_layer")
    page.show_plan(0.6, "edited")
    page.show_rotations([("none", NO_ROTATION), ("per_layer + heads", rotation)], rotation)
    method = MethodSpec(name="teal", selection="threshold")
    page.choose_plan(method, rotation)
    choice = page.choice()
    assert choice.methods == (DENSE, method)
    assert choice.rotations == (rotation,)
    assert choice.sparsities == ""
    assert choice.with_plan
