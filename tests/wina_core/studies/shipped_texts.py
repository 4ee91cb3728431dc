"""Shipped texts in place of those of a data folder, which tests have none of."""

from wina_core.specs.studies import StudySpec


def with_shipped_texts(of: StudySpec) -> StudySpec:
    """Return the study on shipped texts."""
    shipped = {"lambada_openai[0:2500]": "calibration", "lambada_openai[3500:]": "heldout", "wikitext": "training"}
    text = of.model_dump_json()
    for source, name in shipped.items():
        text = text.replace(f'"data:{source}"', f'"demo:{name}"')
    return StudySpec.model_validate_json(text)
