"""llama.cpp's converter of Hugging Face folders on this computer."""

import os
import shutil
from pathlib import Path

from wina_core.errors import WinaError

CONVERTER = "convert_hf_to_gguf.py"
VARIABLE = "LLAMA_CPP"


def find_converter(given: Path | None) -> Path:
    """Return llama.cpp's converter: the given file, or the one in the given folder or VARIABLE's, or on the PATH.

    Raises WinaError if it is not there.
    """
    named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None:
        found = shutil.which(CONVERTER)
        if found is None:
            raise WinaError(
                f"{CONVERTER} is not on the PATH; get llama.cpp's sources, which contain it, and name their folder by "
                f"--converter or {VARIABLE}."
            )
        return Path(found)
    file = named.expanduser() / CONVERTER if named.expanduser().is_dir() else named.expanduser()
    if not file.is_file():
        raise WinaError(f"There is no converter {file}; name llama.cpp's folder or its {CONVERTER}.")
    return file.resolve()
