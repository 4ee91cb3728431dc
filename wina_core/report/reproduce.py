"""The command and the file with which other users reproduce a study, without its author's folders."""

import shlex
from itertools import chain, count

from wina_core.model_info.names import is_folder, last_part, shared_rotation, shared_text
from wina_core.specs import ROLE
from wina_core.specs.allocations import with_texts
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import program_tasks
from wina_core.studies.gallery import gallery
from wina_core.studies.tasks.code_risk import RISK


def shareable(study: StudySpec) -> StudySpec:
    """Return the study without its author's folders: roles in place of models in folders, and the last part of the
    names of other files and folders (`private_files` lists them)."""
    evaluation = study.evaluation
    folders = tuple(dict.fromkeys(model.location for model in study.models if is_folder(model.location)))
    named = {role.name for role in study.roles}
    roles = {folder: _free_name(last_part(folder) or "model", named) for folder in folders}
    return study.model_copy(
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
            "configurations": tuple(
                each.model_copy(
                    update={
                        "rotation": shared_rotation(each.rotation),
                        "allocators": with_texts(each.allocators, shared_text),
                    }
                )
                for each in study.configurations
            ),
            "allocators": with_texts(study.allocators, shared_text),
            "calibration": study.calibration.model_copy(update={"text": shared_text(study.calibration.text)}),
            "evaluation": evaluation.model_copy(
                update={
                    "data_folder": evaluation.data_folder and last_part(evaluation.data_folder),
                    "task_folders": tuple(map(last_part, evaluation.task_folders)),
                    "fidelity": evaluation.fidelity and shared_text(evaluation.fidelity),
                    "original": evaluation.original and shared_text(evaluation.original),
                }
            ),
        }
    )


def private_files(study: StudySpec) -> tuple[str, ...]:
    """Return the last parts of the names of the files and folders that `shareable` shortens."""
    evaluation = study.evaluation
    allocators = [*study.allocators, *(own for each in study.configurations for own in each.allocators)]
    texts = [each.rotation.text.source for each in study.configurations] + [each.text.source for each in allocators]
    texts += [study.calibration.text.source, *(text.source for text in evaluation.texts)]
    others = [evaluation.data_folder or "", *evaluation.task_folders]
    others += [each.rotation.matrices or "" for each in study.configurations]
    return tuple(dict.fromkeys(last_part(name) for name in (*texts, *others) if is_folder(name)))


def _free_name(wanted: str, taken: set[str]) -> str:
    names = chain([wanted], (f"{wanted} {number}" for number in count(2)))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name


def _unless_folder(location: str) -> str:
    return "" if is_folder(location) else location


def command(study: StudySpec, study_file: str, *, samples: bool) -> str:
    """Return the command that runs the study: by name where the gallery has it, else from the file, with its open roles
    and the job's options."""
    known = (entry.study for entry in gallery() if entry.study is not None and entry.kind != "own")
    shipped = next((each for each in known if _anywhere(each) == _anywhere(study)), None)
    given = {role.name: role.location for role in study.roles}
    there = shipped or shareable(study)
    opened = [
        role.name for role in there.roles if not role.location or role.location != given.get(role.name, role.location)
    ]
    words = [word for name in opened for word in ("--role", f"{name}=FOLDER")]
    words += ["--log-samples"] if samples else []
    words += ["--confirm-run-unsafe-code"] if program_tasks(study) else []
    return shlex.join(["wina", "study", "run", study.name if shipped else study_file, *words])


def command_note(study: StudySpec) -> str:
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


def _anywhere(study: StudySpec) -> StudySpec:
    """Return the study without the locations of its roles."""
    return study.model_copy(update={"roles": tuple(role.model_copy(update={"location": ""}) for role in study.roles)})
