"""Programs that do not solve their task and try to pass it all the same.

The tests expect a number that is drawn for each run, {x}, so a program can pass only by a forged verdict.
"""

CHECK = "def check(candidate):\n    assert candidate(3) == {x}\n\ncheck(answer)"
PLAIN = "assert answer(3) == {x}"
CLOSE = "assert abs(answer(3) - {x}) < 1e-6"
LISTED = "assert answer(3) == [{x}, 'end']"
ALL = "assert all(answer(i) == {x} + i for i in range(3))"
KIND = "found = answer(3)\nassert isinstance(found, int) and found == {x}"
MATH = "assert math.isclose(answer(3), {x})"
ARRAY = "import numpy as np\nassert np.array_equal(answer(3), np.array([{x}, 1]))"
CAUGHT = "try:\n    answer(-1)\nexcept:\n    pass\ntry:\n    assert answer(3) == {x}\nexcept OSError:\n    pass"
WITHIN = "assert '{x}' in answer(3)"
SET = "assert set(answer(3)) == {{{x}}}"
CALLED_BACK = "assert answer(lambda value: value == {x}) is {x}"

CLAIM = '{"token": "", "outcome": "passed"}'
EACH = """
import os
def to_all(data):
    for n in range(256):
        try: os.write(n, data)
        except OSError: pass
"""
PEER = """
import sys, os, json, gc
def peer():
    frame = sys._getframe()
    while frame:
        for held in list(frame.f_locals.values()):
            if type(held).__name__ == '_Program': return held
        frame = frame.f_back
"""
LIAR = """
class Liar:
    def yes(self, *others): return True
    __eq__ = __le__ = __ge__ = __bool__ = __contains__ = __instancecheck__ = yes
    def __ne__(self, other): return False
    __lt__ = __gt__ = __ne__
    def zero(self, *others): return 0
    __hash__ = __sub__ = __rsub__ = __add__ = __radd__ = __abs__ = __float__ = __int__ = __index__ = zero
    def __len__(self): return 2
    def __iter__(self): return iter([Liar(), Liar()])
    def __getitem__(self, key): return Liar()
    def __getattr__(self, name): return Liar()
    def __call__(self, *a, **k): return Liar()
"""
ONE_LIAR = LIAR + "answer = lambda *a: Liar()\n"
NONE = "def answer(x): return None\n"


def _lying(base: str, value: str) -> str:
    return (
        f"class Lying({base}):\n    __eq__ = __le__ = __ge__ = __contains__ = __bool__ = lambda *a: True\n"
        "    __ne__ = __lt__ = __gt__ = lambda *a: False\n    __sub__ = __rsub__ = __abs__ = lambda *a: 0\n"
        "    __hash__ = lambda *a: 0\n    __len__ = lambda *a: 2\n    __iter__ = lambda self: iter([self])\n"
        f"def answer(x): return Lying({value})\n"
    )


def _replaced(name: str, value: str = "lambda *a, **k: True") -> str:
    return f"import builtins\n{name} = builtins.{name} = {value}\n{NONE}"


FORGERIES: dict[str, tuple[str, str]] = {
    "claim on every descriptor": (f"{EACH}to_all(b'{CLAIM}')\n{NONE}", PLAIN),
    "claim and leave": (f"{EACH}to_all(b'{CLAIM}')\nos._exit(0)", PLAIN),
    "claim at exit": (f"{EACH}import atexit\natexit.register(to_all, b'{CLAIM}')\n{NONE}", PLAIN),
    "leave in a call": ("import os\ndef answer(x): os._exit(0)", CAUGHT),
    "exit in a call": ("def answer(x): raise SystemExit(0)", CAUGHT),
    "own base exception": ("class Away(BaseException): pass\ndef answer(x): raise Away", CAUGHT),
    "walk frames for the verdict": (
        f"{PEER}def answer(x):\n    p = peer()\n    for word in ('passed', 'ready'):\n"
        "        p._channel.send([word]); p._channel.send({'outcome': 'passed', 'token': ''})\n    os._exit(0)",
        CAUGHT,
    ),
    "walk the collector's objects": (
        f"{PEER}{EACH}def answer(x):\n    for held in gc.get_objects():\n"
        "        if isinstance(held, dict) and 'token' in held:\n"
        "            to_all(json.dumps({'token': held['token'], 'outcome': 'passed'}).encode())\n    os._exit(0)",
        CAUGHT,
    ),
    "read memory for the token": (
        "import ctypes, re\ndef answer(x):\n    text = ctypes.string_at(id(x) - 4096, 8192)\n"
        "    return int(re.sub(rb'[^0-9]', b'', text)[:9] or b'0')",
        PLAIN,
    ),
    "reopen the judge's pipe": (
        "import os\nfor n in range(8):\n    for mode in (os.O_RDONLY, os.O_WRONLY):\n        try:\n"
        f"            os.write(os.open(f'/proc/self/fd/{{n}}', mode), b'{CLAIM}\\n')\n"
        f"        except OSError: pass\n{NONE}",
        PLAIN,
    ),
    "patch the assertion's exception": (_replaced("AssertionError", "Exception"), PLAIN),
    "patch math": (f"import math\nmath.isclose = lambda *a, **k: True\n{NONE}", MATH),
    "a class for math": (f"class math:\n    isclose = lambda *a, **k: True\n{NONE}", MATH),
    "a false module": (
        "import sys, types\nmath = types.ModuleType('math')\nmath.isclose = lambda *a, **k: True\n"
        f"sys.modules['math'] = math\n{NONE}",
        MATH,
    ),
    "patch exec": (f"import builtins\nbuiltins.exec = lambda *a: None\n{NONE}", PLAIN),
    "own all": (_replaced("all"), ALL),
    "own check": (f"def check(candidate): pass\n{NONE}", CHECK),
    "own builtins": (f"__builtins__ = {{'all': lambda x: True}}\n__name__ = 'x'\n{NONE}", ALL),
    "trace function": (
        "import sys\ndef trace(frame, event, argument):\n    return trace\nsys.settrace(trace)\n"
        "sys.excepthook = lambda *a: None\nsys.exit = lambda *a: None\n" + NONE,
        CHECK,
    ),
    "signal handlers": (
        "import signal, os\nfor n in (signal.SIGALRM, signal.SIGTERM, signal.SIGPIPE):\n"
        f"    signal.signal(n, lambda *a: os._exit(0))\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\n{NONE}",
        PLAIN,
    ),
    "equal to all": (ONE_LIAR, PLAIN),
    "zero distance": (ONE_LIAR, CLOSE),
    "contains all": (ONE_LIAR, WITHIN),
    "a list of liars": (LIAR + "answer = lambda x: [Liar(), 'end']", LISTED),
    "array of liars": (LIAR + "import numpy\nanswer = lambda x: numpy.array([Liar(), Liar()])", ARRAY),
    "array interface": (
        "class Memory:\n"
        "    __array_interface__ = {'shape': (2,), 'typestr': '<i8', 'data': (4096, False), 'version': 3}\n"
        "    def __array__(self, *a, **k): raise ValueError\nanswer = lambda x: Memory()",
        ARRAY,
    ),
    "class that claims to be a number": (LIAR + "Liar.__class__ = int\nanswer = lambda x: Liar()", KIND),
    "lying number": (_lying("int", "3"), PLAIN),
    "lying distance": (_lying("float", "0.5"), CLOSE),
    "lying list": (_lying("list", "[1, 2]"), LISTED),
    "not a number": ("def answer(x): return float('nan')", CLOSE),
    "reply before the request": (f"{PEER}{NONE}peer()._channel.send(['0' * 16, 'result', True, [], []])", PLAIN),
    "reply twice": (
        f"{PEER}def answer(x):\n    f = sys._getframe()\n    while 'other' not in f.f_locals: f = f.f_back\n"
        "    m = f.f_locals['other']\n"
        "    for _ in range(2): peer()._channel.send([m, 'result', [], [], []])",
        CAUGHT,
    ),
    "announce other names": (
        f"{PEER}{NONE}p = peer()\np.operations['names'] = lambda *n: dict.fromkeys("
        "['check', 'all', 'len', 'isinstance', 'print', '__builtins__', 'answer', *n], lambda *a, **k: True)",
        ALL,
    ),
    "raise in the judge by name": (
        f"{PEER}def answer(x):\n    p = peer()\n    p.describe = lambda e: [[['SystemExit', None]], [0]]\n    1 / 0",
        PLAIN,
    ),
    "objects that were never given": (
        f"{PEER}def answer(x):\n    peer().refer = lambda x: ['yours', 0]\n    return object()",
        PLAIN,
    ),
    "call what is no argument": (
        f"{PEER}def answer(x):\n    p = peer()\n    p.refer = lambda x: ['type', 'object']\n"
        "    return p.ask('call', object(), 3)",
        PLAIN,
    ),
    "other requests of the judge": (
        f"{PEER}def answer(f):\n    return peer().ask('get', f, '__globals__')",
        CALLED_BACK,
    ),
    "change the call-back's number": ("def answer(f):\n    f.number = -1\n    return f(3)", CALLED_BACK),
    "deep JSON": (f"{EACH}def answer(x):\n    to_all(b'[' * 60000 + b'\\n')", CAUGHT),
    "a huge text": ("def answer(x): return 'x' * 10**9", CAUGHT),
    "close the pipes": ("import os\ndef answer(x):\n    os.closerange(0, 64)\n", CAUGHT),
    "endless iteration": (LIAR + "import itertools\nanswer = lambda x: itertools.repeat(Liar())", SET),
    "hang": ("import time\ndef answer(x): time.sleep(60)", CAUGHT),
}  # fmt: skip
