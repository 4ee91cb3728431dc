"""Frozen, versioned descriptions of models, rotations, methods, evaluations and runs.

A spec holds everything that a number depends on and nothing else; its content hash is its identity in the store and in
the cache.
"""

from wina_core.specs.allocations import AllocatedSparsity, AllocatorName, AllocatorSpec, DivergenceSpec, Plan
from wina_core.specs.base import Spec
from wina_core.specs.evaluations import (
    COST,
    COST_CONTEXT,
    FIDELITY,
    MOST_DOCUMENTS,
    MOST_EXAMPLES,
    ORIGINAL,
    OWN_UNITS,
    PREFILL_POLICIES,
    SYNTHETIC,
    EvaluationSpec,
    Fraction,
    NetworkName,
    SyntheticSpec,
    TaskSpec,
    TextSpec,
)
from wina_core.specs.gates import (
    DENSE,
    CalibrationSpec,
    Correction,
    MethodSpec,
    Selection,
    Thresholds,
    method_specs,
)
from wina_core.specs.methods import Masks, Variant
from wina_core.specs.quantization import (
    Bits,
    BitsPlan,
    JointSpec,
    NamedQuantization,
    Quantization,
    QuantizationSpec,
    Quantizer,
    WeightBits,
    load_bits_plan,
    printed_quantization,
    quantization_label,
)
from wina_core.specs.rotations import (
    AS_RELEASED_ROTATION,
    AUTO_ROTATION,
    FREE_KL_ROTATION,
    FREE_ROTATION,
    MATRICES_FILE,
    NO_ROTATION,
    ROTATION_MODES,
    USUAL_EFFORT,
    AttentionBasis,
    FoldNorms,
    MlpBasis,
    Objective,
    RotationMode,
    RotationSpec,
    Spectrum,
    Weighting,
)
from wina_core.specs.runs import ROLE, Configuration, DType, ModelSource, RunSpec, check_synthetic
