"""What goes wrong with a machine, a command line or a server that runs: rows of causes.py."""

from .rules import Rule

RULES: tuple[Rule, ...] = (
    # The machine.
    Rule(
        "driver_too_old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient",
        "update the NVIDIA driver, or install an engine built for an older CUDA",
    ),
    Rule(
        "driver_mismatch",
        r"unsupported display driver / cuda driver combination",
        "the libcuda that was loaded does not fit the driver: in a container put the driver's own"
        " first (LD_LIBRARY_PATH=/usr/local/nvidia/lib64) or take an image of an older CUDA;"
        " after an update of the driver reboot",
    ),
    Rule(
        "no_gpu",
        r"No CUDA GPUs are available|Found no NVIDIA driver|Torch not compiled with CUDA"
        r"|Failed to infer device type|No accelerator|nvidia-smi not found|no CUDA-capable device"
        r"|CUDA driver initialization failed",
        "the engine sees no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES, or install its CPU"
        " build",
    ),
    Rule(
        "gpu_too_old",
        r"no kernel image is available|only supported on GPUs with compute capability",
        "this GPU is too old for what was asked: try --launch-arg --dtype=float16, or an older"
        " version of the engine",
    ),
    Rule(
        "no_space",
        r"No space left on device",
        "a disk is full (df -h, /tmp and /dev/shm too): free space, set HF_HOME to a larger disk,"
        " or give the container a larger shm_size",
    ),
    Rule(
        "no_compiler",
        r"Could not find nvcc|nvcc: not found|No such file or directory: '(?:\S*/)?(?:nvcc|ninja)'"
        r"|Ninja is required|Ninja build failed",
        "the engine compiles kernels as it starts, and has no nvcc and ninja that can: install"
        " ninja beside it and a CUDA toolkit of torch's version (CUDA_HOME), or use its image",
    ),
    Rule(
        "port",
        r"[Aa]ddress already in use|Port is already in use|port \d+ is already in use",
        "stop the program that holds the port, or choose another with --port",
    ),
    # The command line.
    Rule(
        "ambiguous_flag",
        r"ambiguous option",
        "this version of the engine split or renamed the flag: write it out in --launch-arg",
    ),
    Rule(
        "bad_flag",
        r"unrecognized arguments|[Nn]o such option|invalid choice|expected one argument"
        r"|invalid \w+ value",
        "this version of the engine does not take that: correct --launch-arg (its --help has all)",
    ),
    Rule(
        "missing_extra",
        r"Missing dependencies for serving|requires `accelerate`",
        "install what the server needs: pip install 'transformers[serving]'",
        ("transformers",),
    ),
    Rule(
        "eagle_transformers",
        r"LossKwargs|masking_utils",
        "EAGLE's code needs transformers 4.53 to 4.57: install that in its environment",
        ("eagle",),
    ),
    Rule(
        "missing_module",
        r"No module named|cannot import name|undefined symbol|cannot open shared object",
        "the engine's environment is incomplete or its versions disagree: reinstall it in an"
        " environment of its own",
        lowest_only=True,
    ),
    # A running server.
    Rule(
        "hang",
        r"[Ww]atchdog timeout|EngineCore.*(?:timed out|timeout)|RPC call to .* timed out",
        "a step of the engine hung: see the stacks in its log; a newer version may help",
    ),
    Rule(
        "illegal_access",
        r"illegal memory access",
        "a kernel of the engine failed: use another version or attention backend (--launch-arg"
        " --attention-backend=...), and for drafts a chain in place of a tree (--spec-topk 1)",
    ),
    Rule(
        "device_assert",
        r"device-side assert triggered",
        'a kernel was given an index out of range: the log names it further up ("Assertion ...'
        ' failed"); use another version of the engine',
    ),
    Rule(
        "engine_dead",
        r"EngineDeadError|EngineCore encountered an issue",
        "the engine behind the HTTP server died: see its log, above this line",
    ),
    Rule(
        "crash",
        r"Fatal Python error|Segmentation fault",
        "the engine crashed in native code: try another attention backend or version",
    ),
)
