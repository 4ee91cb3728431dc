"""Programs that reach for what is outside their sandbox: each body returns normally only if it gets there.

In their text, {secret} is a file of the user, {folder} a folder of the user's, {port} a port that listens here, and
{runner} the process that started them.
"""

PROLOGUE = """
import ctypes, errno, mmap, os, resource, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
ARM = os.uname().machine == "aarch64"

def must(result):
    if result in (-1, None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "refused")
    return result

def system_call(number, *arguments):
    return must(libc.syscall(number, *arguments))

def found(condition):
    if not condition:
        raise OSError("nothing was found")

def attempt():
    try:
        act()
        return "out"
    except Exception as error:
        return repr(error)

def act():
"""
TESTS = "assert attempt() == 'out'"

ESCAPES = {
    "tcp": "socket.create_connection(('127.0.0.1', {port}), 1)",
    "unix socket": "socket.socket(socket.AF_UNIX)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "read a user's file": "open({secret!r}).read()",
    "read it by the kernel's call": "must(libc.open({secret!r}.encode(), 0))",
    "openat2": "system_call(437, -100, {secret!r}.encode(), (ctypes.c_uint64 * 3)(), 24)",
    "list a folder": "os.listdir({folder!r})",
    "list the processes": "os.listdir('/proc')",
    "truncate": "os.truncate({secret!r}, 0)",
    "delete": "os.unlink({secret!r})",
    "rights of a file": "os.chmod({secret!r}, 0o777)",
    "extended attributes": "os.setxattr({secret!r}, 'user.x', b'1')",
    "symbolic link": "os.symlink({secret!r}, 'link'); open('link').read()",
    "hard link": "os.link({secret!r}, {folder!r} + '/linked')",
    "write to a package": "open(os.__file__, 'a')",
    "change folder": "os.chdir({folder!r})",
    "fork": "os._exit(0) if os.fork() == 0 else None",
    "exec": "os.execv('/bin/true', ['true'])",
    "clone3": "system_call(435, (ctypes.c_uint64 * 11)(), 88)",
    "thread": "threading.Thread(target=print).start()",
    "signal the runner": "os.kill({runner}, signal.SIGUSR1)",
    "signal everyone": "os.kill(-1, signal.SIGCONT)",
    "pidfd": "system_call(434, {runner}, 0)",
    "trace the runner": "must(libc.ptrace(16, {runner}, 0, 0))",
    "memory of the runner": "must(libc.process_vm_readv({runner}, ctypes.byref((ctypes.c_uint64 * 2)()), 1, 0, 0, 0))",
    "descriptors of the runner": "found([os.open(f'/proc/{runner}/fd/{{n}}', os.O_RDWR) for n in range(64)])",
    "descriptors of the judge": """opened = []
    for process in range(os.getpid() - 9, os.getpid() + 9):
        for n in range(9 if process != os.getpid() else 0):
            try:
                opened.append(os.open(f'/proc/{{process}}/fd/{{n}}', os.O_WRONLY))
            except OSError:
                pass
    found(opened)""",
    "environment of the runner": "open('/proc/{runner}/environ').read()",
    "environment": "found([name for name in os.environ if name[-8:] not in ('_THREADS', 'LC_CTYPE', 'PWD')])",
    "descriptors left open": """for n in range(3, 256):
        try:
            kind = os.fstat(n).st_mode & 0o170000
        except OSError:
            continue
        if kind != 0o010000:  # a pipe to the judge
            return
    found(False)""",
    "code in memory": "os.memfd_create('code')",
    "io_uring": "system_call(425, 8, (ctypes.c_uint8 * 120)())",
    "programs in the kernel": "system_call(280 if ARM else 321, 0, (ctypes.c_uint8 * 72)(), 72)",
    "own namespace": "must(libc.unshare(0x10000000))",
    "mount": "must(libc.mount(b'none', {folder!r}.encode(), b'tmpfs', 0, None))",
    "shared memory": "must(libc.shmget(0x57494E41, 4096, 0o1666))",
    "keyring": "system_call(219 if ARM else 250, 0, -3, 0)",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_CPU, (60, 60))",
    "memory bomb": "held = [bytearray(2**27) for _ in range(16)]",
    "processor time": "[signal.signal(signal.SIGXCPU, signal.SIG_IGN), [0 for _ in iter(int, 1)]]",
}  # fmt: skip


def escape(body: str, **places: object) -> str:
    """Return the program of one attempt."""
    return PROLOGUE + "    " + body.format(**places) + "\n"
