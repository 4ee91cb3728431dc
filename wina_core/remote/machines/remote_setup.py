"""The half of set-up that runs on the machine, from stdin: the standard library of Python 3.6 or newer, and no import
of this program.

Its source comes first, then one line of JSON, then the bytes of the files that this line lists. It prints lines of
JSON: {"step": text}, {"detail": text}, and at the end {"done": command} or {"error": text}.
"""

# mypy: ignore-errors

import json
import os
import shutil
import subprocess
import sys

MARKER = "made-by-wina-machines-setup"
LEAST = (3, 11)


def tell(**line):
    """Print one line; a closed connection ends this program."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Problem(Exception):  # noqa: N818 - a sentence
    """A reason to stop, as a sentence."""


def own_folder():
    """Return the folder of the set-up; refuse one that it has not made."""
    folder = os.path.join(os.path.expanduser("~"), ".wina-workbench")
    if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isfile(os.path.join(folder, MARKER))):
        raise Problem(f"{folder} was not made by this set-up; rename it, then try again.")
    return folder


def find_python(wanted):
    """Return a Python that is new enough, the wanted program or else one on the PATH."""
    names = [wanted] if wanted else [sys.executable, *(f"python3.{minor}" for minor in range(14, 10, -1))]
    found = []
    for name in names:
        path = shutil.which(os.path.expanduser(name))
        if path is None:
            continue
        said = subprocess.run([path, "-I", "-c", "import sys; print(*sys.version_info[:2])"], stdout=subprocess.PIPE)
        version = tuple(map(int, said.stdout.split()))
        if version >= LEAST:
            return path
        found.append(f"{path} is Python {version[0]}.{version[1]}")
    cause = "; ".join(found) or f"{wanted} does not exist"
    raise Problem(
        f"No Python 3.11 or newer was found ({cause}); install one there and name it: wina machines setup NAME "
        "--python PATH."
    )


def run(words, what):
    """Run a program, pass on its lines, and raise its last one as the reason of a failure."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    last = ""
    try:
        for line in process.stdout:
            text = line.decode(errors="replace").strip()[:500]
            if text:
                last = text
                tell(detail=text)
    except OSError:  # nobody listens any more
        process.terminate()
        raise
    code = process.wait()
    if code:
        raise Problem(f"{what} failed: {last or code}")


def receive(header, folder):
    """Write the files that follow the header; each appears whole or not at all."""
    for name, size in header["files"]:
        path = os.path.join(folder, name)
        with open(path + ".part", "wb") as file:
            while size:
                block = sys.stdin.buffer.read(min(size, 1 << 20))
                if not block:
                    raise Problem("The connection ended before all files had come; try again.")
                file.write(block)
                size -= len(block)
        os.replace(path + ".part", path)


def set_up(header):
    """Make the environment and install into it; return the command of `wina`."""
    folder = own_folder()
    python = find_python(header["python"])
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
    with open(os.path.join(folder, MARKER), "a") as marker:
        lock(marker)
        receive(header, folder)
        wheel, constraints = (os.path.join(folder, name) for name, _ in header["files"])
        environment = os.path.join(folder, "venv")
        inside = os.path.join(environment, "bin", "python")
        if not os.path.exists(inside) or subprocess.call([inside, "-I", "-m", "pip", "--version"], **SILENT):
            tell(step=f"Make the environment with {python}")
            shutil.rmtree(environment, ignore_errors=True)
            if subprocess.call([python, "-I", "-c", "import ensurepip"], **SILENT):
                raise Problem(
                    f"{python} cannot make environments; install its venv (Debian: apt install python3-venv)."
                )
            run([python, "-I", "-m", "venv", environment], "Making the environment")
        pip = [inside, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
        os.environ["DISABLE_CUDA"] = "1"  # otherwise HQQ's set-up tries to build extensions, which are not used
        program = os.path.join(environment, "bin", "wina")
        installed = os.path.exists(program)
        tell(step="Install the program and its libraries; the first time this downloads several GB")
        run([*pip, "--constraint", constraints, wheel], "Installing")
        if installed:  # pip keeps a program of the same version, whose files may be others
            run([*pip, "--force-reinstall", "--no-deps", wheel], "Installing the program")
        native = [inside, "-P", "-m", "wina_kernels.native.build"]
        if subprocess.call(native, **SILENT):
            tell(detail="The native kernels were not built; PyTorch does their work.")
        return [program]


SILENT = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def lock(marker):
    """Take the folder for this process; a second set-up at the same time is refused."""
    import fcntl

    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Problem("Another set-up of this machine is running; wait for its end.") from None


def remove():
    """Delete the folder that set-up made, if it is there; return whether it was."""
    folder = own_folder()
    if not os.path.lexists(folder):
        return False
    marker = os.path.join(folder, MARKER)
    for name in os.listdir(folder):
        if name != MARKER:  # last, so that an interrupted removal can be repeated
            path = os.path.join(folder, name)
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
    os.remove(marker)
    os.rmdir(folder)
    return True


def main():
    """Read the header, do what it says, and print the end."""
    header = json.loads(sys.stdin.buffer.readline().decode())
    try:
        tell(done=set_up(header) if header["action"] == "set up" else remove())
    except Problem as problem:
        tell(error=str(problem))
    except OSError as error:
        tell(error=f"{error.strerror or error} ({error.filename})")


if __name__ == "__main__":
    main()
