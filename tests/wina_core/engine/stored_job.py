"""A job of two runs that a database has."""

from tests.wina_core.engine.engine_events import evaluate, run
from wina_core.specs import Configuration
from wina_core.specs.studies import StudySpec

RUNS = (run(0.2), run(0.4))
JOB = evaluate(*RUNS)
STUDY = StudySpec(name="test", models=(RUNS[0].model,), configurations=(Configuration(),))
