"""Commands and files with which other users make a study or a sparse model again, without its author's folders."""

import shlex
from collections.abc import Iterator, Mapping
from itertools import chain, count

from wina_core.model_info.sharing import (
    PLAN_FILE,
    is_folder,
    last_part,
    needs_plan_file,
    one_target,
    shared_rotation,
    shared_text,
)
from wina_core.specs import (
    AUTO_ROTATION,
    ROLE,
    USUAL_EFFORT,
    CalibrationSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import program_tasks, texts_of, with_files
from wina_core.studies.gallery import gallery
from wina_core.studies.tasks.task_folder import RISK

_Flags = Mapping[str, tuple[object, object]]
"""Value and default by flag."""

# ---- studies ---------------------------------------------------------------------------------------------------


def shareable(study: StudySpec) -> StudySpec:
    """Return the study without its author's folders: roles in place of models in folders, and the last part of the
    names of other files and folders (`private_files` lists them)."""
    evaluation = study.evaluation
    folders = tuple(dict.fromkeys(model.location for model in study.models if is_folder(model.location)))
    named = {role.name for role in study.roles}
    roles = {folder: _free_name(last_part(folder) or "model", named) for folder in folders}
    shared = with_files(study, shared_rotation, shared_text)
    return shared.model_copy(
        update={
            "roles": (
                *(role.model_copy(update={"location": _unless_folder(role.location)}) for role in study.roles),
                *(Role(name=name) for name in roles.values()),
            ),
            "models": tuple(
                model.model_copy(update={"location": ROLE + roles[model.location], "fingerprint": ""})
                if model.location in roles
                else model
                for model in study.models
            ),
            "evaluation": shared.evaluation.model_copy(
                update={
                    "data_folder": evaluation.data_folder and last_part(evaluation.data_folder),
                    "task_folders": tuple(map(last_part, evaluation.task_folders)),
                }
            ),
        }
    )


def private_files(study: StudySpec) -> tuple[str, ...]:
    """Return the last parts of the names of the files and folders that `shareable` shortens."""
    files = [text.source for text in texts_of(study)]
    files += [study.evaluation.data_folder or "", *study.evaluation.task_folders]
    files += [configuration.rotation.matrices or "" for configuration in study.configurations]
    return tuple(dict.fromkeys(last_part(name) for name in files if is_folder(name)))


def _free_name(name: str, used_names: set[str]) -> str:
    free = next(name for name in chain([name], (f"{name} {number}" for number in count(2))) if name not in used_names)
    used_names.add(free)
    return free


def _unless_folder(location: str) -> str:
    return "" if is_folder(location) else location


def study_command(study: StudySpec, study_file: str, *, samples: bool) -> str:
    """Return the command that runs the study: by name where the gallery has it, else from the file, with its open roles
    and the job's options."""
    entries = (entry.study for entry in gallery() if entry.study is not None and entry.kind != "own")
    shipped = next((entry for entry in entries if _without_locations(entry) == _without_locations(study)), None)
    locations = {role.name: role.location for role in study.roles}
    opened = [
        role.name
        for role in (shipped or shareable(study)).roles
        if not role.location or role.location != locations.get(role.name, role.location)
    ]
    words = [word for name in opened for word in ("--role", f"{name}=FOLDER")]
    words += ["--log-samples"] if samples else []
    words += ["--confirm-run-unsafe-code"] if program_tasks(study) else []
    return shlex.join(["wina", "study", "run", study.name if shipped else study_file, *words])


def study_command_note(study: StudySpec) -> str:
    """Return remarks for whoever runs the study: the programs it executes and the files it needs."""
    notes = []
    if programs := program_tasks(study):
        notes.append(
            "--confirm-run-unsafe-code consents to running the programs that the model writes for "
            f"{' and '.join(programs)}. {RISK}"
        )
    if private := private_files(study):
        notes.append(
            f"The study reads files of its author, of which it keeps only the names: {', '.join(private)}. Put them "
            "where you run it, or name yours."
        )
    return " ".join(notes)


def _without_locations(study: StudySpec) -> StudySpec:
    return study.model_copy(update={"roles": tuple(role.model_copy(update={"location": ""}) for role in study.roles)})


# ---- sparse models ---------------------------------------------------------------------------------------------


def export_command(spec: RunSpec, folder: str) -> tuple[str, ...]:
    """Return the words of `wina export-model` with a flag for all of a run's sparse model that is not the default.

    Files of the author's are named as in the working folder, and PLAN_FILE stands for plans that no flag names.
    """
    method = spec.method
    plan = ("--plan", PLAN_FILE) if needs_plan_file(spec) else ("--sparsity", one_target(spec.plan))
    words = (
        *("--model", _file(spec.model.location), "--method", method.name, *plan),
        *_words({"--dtype": (spec.model.dtype, "auto"), "--device": (spec.model.device, "auto")}),
        *_quantization(spec.model),
        *_words(
            {
                "--variant": (method.variant, "paper"),
                "--selection": (method.selection, "topk"),
                "--masks": (method.masks, "separate"),
                "--correction": (method.correction, "none"),
                "--rho": (method.rho, None),
            }
        ),
        *_rotation(spec.rotation),
        *_calibration(spec.calibration or CalibrationSpec()),
        *_words({"--dense-prefix": (spec.evaluation.dense_prefix, 0.0)}),
    )
    return "wina", "export-model", folder, *map(str, words)


def export_command_notes(spec: RunSpec) -> tuple[str, ...]:
    """Return sentences on what the command reads, and on what it cannot name."""
    texts = _texts(spec)
    files = [spec.model.location, *(text.source for text in texts.values()), spec.rotation.matrices or ""]
    names = ", ".join(dict.fromkeys(last_part(file) for file in files if is_folder(file)))
    lacking = [f"revision {spec.model.revision} of the model"] if spec.model.revision else []
    lacking += [
        f"rows of {text.sequence} tokens of the {reader} text" for reader, text in texts.items() if text.sequence != 512
    ]
    return (
        *((f"The plan is the file {PLAN_FILE} of this folder; run the command where it is.",) * needs_plan_file(spec)),
        *((f"It reads files of the author, to be put in the working folder: {names}.",) if names else ()),
        *((f"No flag names {' and '.join(lacking)}; without them the model differs.",) if lacking else ()),
    )


def _texts(spec: RunSpec) -> dict[str, TextSpec]:
    """Return the texts that the model depends on, by what reads them."""
    bits, texts = spec.model.quantization, {}
    if isinstance(bits, QuantizationSpec) and bits.reads_text:
        texts["bits"] = bits.text
    if spec.rotation.reads_text:
        texts["rotation"] = spec.rotation.text
    if spec.method.needs_calibration and spec.calibration:
        texts["calibration"] = spec.calibration.text
    return texts


def _quantization(source: ModelSource) -> Iterator[object]:
    bits = source.quantization
    if not isinstance(bits, QuantizationSpec):
        yield from _words({"--quantization": (bits, "none")})
    elif isinstance(bits.bits, float):
        yield from ("--bits", int(bits.bits) if bits.bits.is_integer() else bits.bits, "--quantizer", bits.quantizer)
        if bits.by_energy:
            yield "--by-energy"
        if bits.quantizer != "planes":  # which read no group
            yield from _words({"--group": (bits.group, 64)})
        yield from _words({"--head-bits": (bits.head_bits, 16), **_text("bits", bits.text, TextSpec())})


def _rotation(rotation: RotationSpec) -> Iterator[object]:
    if not rotation.turns:
        yield from _words({"--fold-norms": (rotation.fold_norms, "none")})
        return
    free = rotation.mode == "global" and rotation.weighting == "sensitivity"
    steps, text = USUAL_EFFORT[rotation.objective]
    if rotation.is_auto and rotation.objective == "eigen":
        text = AUTO_ROTATION.text
    usual = RotationSpec()
    yield from _words(
        {
            "--rotation": ("free" if free else rotation.mode, "none"),
            "--attention-basis": (",".join(rotation.attention_basis), ",".join(usual.attention_basis)),
            "--mlp-basis": (",".join(rotation.mlp_basis), ",".join(usual.mlp_basis)),
            "--weighting": (rotation.weighting, "sensitivity" if free else "trace"),
            "--objective": (rotation.objective, "error" if free else "eigen"),
            "--rotation-steps": (rotation.steps, steps),
            "--spectrum": (rotation.spectrum, "linear"),
            "--drop-directions": (rotation.drop_directions, 0),
            "--rotation-sparsity": (rotation.sparsity, AUTO_ROTATION.sparsity),
            "--rotation-bits": (rotation.noise_bits, 16),
            "--fold-norms": (rotation.fold_norms, "exact"),
            **_text("rotation", rotation.text, text),
            "--matrices": (rotation.matrices and _file(rotation.matrices), None),
        }
    )
    if rotation.per_head != (rotation.mode != "none"):
        yield "--rotate-heads" if rotation.per_head else "--no-rotate-heads"


def _calibration(spec: CalibrationSpec) -> Iterator[object]:
    usual = CalibrationSpec()
    return _words({**_text("calibration", spec.text, usual.text), "--thresholds": (spec.thresholds, usual.thresholds)})


def _text(reader: str, text: TextSpec, usual: TextSpec) -> _Flags:
    return {f"--{reader}-text": (_file(text.source), usual.source), f"--{reader}-tokens": (text.tokens, usual.tokens)}


def _words(flags: _Flags) -> Iterator[object]:
    """Yield the flags whose value is not the default."""
    for flag, (value, usual) in flags.items():
        if value != usual:
            yield from (flag, value)


def _file(name: str) -> str:
    """Return a path as one in the working folder; any other name as it is."""
    # Without "./", a folder could be taken for a hub id or the demo.
    return f"./{last_part(name)}" if is_folder(name) else name
