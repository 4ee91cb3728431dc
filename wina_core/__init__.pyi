"""Types of the public API."""

from wina_core.api.export import export_model as export_model
from wina_core.api.figures import frontier_figure as frontier_figure
from wina_core.api.figures import heatmap_figure as heatmap_figure
from wina_core.api.measuring import gate as gate
from wina_core.api.measuring import measure as measure
from wina_core.api.model import Model as Model
from wina_core.api.model import fetch_model as fetch_model
from wina_core.api.model import open_model as open_model
from wina_core.api.model import quantize as quantize
from wina_core.api.model import rotate as rotate
from wina_core.api.planning import allocate as allocate
from wina_core.api.planning import allocate_jointly as allocate_jointly
from wina_core.api.planning import calibrate as calibrate
from wina_core.api.stored import query_results as query_results
from wina_core.api.studies import run_study as run_study
from wina_core.errors import WinaError as WinaError
from wina_core.files.version import __version__ as __version__
