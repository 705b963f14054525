"""The table behind diagnose.py: how a failure looks in a log, and what to do about it.

Texts are those of SGLang 0.5.3 to 0.5.23, vLLM 0.24 to 0.32, transformers 4.53 to 5.19 and torch
2.6 to 2.13. Earlier rows win.
"""

import re

from msgspec import Struct

# Errors that only report that another process failed.
SECOND_HAND = re.compile(
    r"[Ss]ee root cause above|[Ss]ee (?:the )?stack trace|EngineDeadError|EngineGenerateError"
    r"|scheduler died during init|Initialization failed|^EOFError|^SystemExit|^KeyboardInterrupt"
    r"|CancelledError|BrokenPipeError|ConnectionResetError|DistBackendError|ProcessExitedException"
    r"|^RuntimeError: Rank \d+ scheduler|Worker failed with error|WorkerProc initialization failed"
)

# A server that says this has failed for good, though its process may wait on forever.
DOOMED = re.compile(
    r"Scheduler hit an exception|EngineCore failed to start|Received sigquit from a child process"
    r"|error while attempting to bind on address"
)


class Rule(Struct, frozen=True):
    """One row. `near` must be found in the traceback above; no engines means all.

    `lowest_only`: too common in handled errors to be believed further up. `speculative`: only where
    a draft model was loaded.
    """

    kind: str
    pattern: str
    advice: str
    engines: tuple[str, ...] = ()
    near: str = ""
    lowest_only: bool = False
    speculative: bool = False


SGLANG = ("sglang",)
VLLM = ("vllm",)
CUDA_OOM = r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory"
LESS = (
    "lower memory_fraction (--launch-arg --mem-fraction-static=0.7)",
    "lower memory_fraction (--launch-arg --gpu-memory-utilization=0.8)",
)
MORE = (
    "raise memory_fraction (--launch-arg --mem-fraction-static=0.9)",
    "raise memory_fraction (--launch-arg --gpu-memory-utilization=0.95)",
)
OTHERS = "free the GPU of other programs (nvidia-smi)"

RULES: tuple[Rule, ...] = (
    # Memory. SGLang's "Not enough memory" asks for the opposite of an out-of-memory error.
    Rule(
        "kv_too_small",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        f"the weights leave no room for the KV cache: {MORE[0]}, or {OTHERS}",
        SGLANG,
    ),
    Rule(
        "kv_too_small",
        r"No available memory for the cache blocks",
        f"the weights leave no room for the KV cache: {MORE[1]}, or {OTHERS}",
        VLLM,
    ),
    Rule(
        "kv_too_small",
        r"To serve at least one request with the model's max seq len",
        f"shorten context_length (--launch-arg --max-model-len=8192), or {MORE[1]}",
        VLLM,
    ),
    Rule(
        "gpu_busy",
        r"Free memory on device .* is less than desired GPU memory utilization",
        f"{OTHERS}, or {LESS[1]}",
        VLLM,
    ),
    Rule(
        "oom_capture",
        rf"[Cc]apture (?:\w+ )*cuda graph failed: .*(?:{CUDA_OOM}|out of memory)",
        f"{LESS[0]}, or plan less concurrency: fewer graphs",
        SGLANG,
    ),
    Rule(
        "oom_capture",
        CUDA_OOM,
        f"{LESS[0]}, or plan less concurrency: fewer graphs",
        SGLANG,
        near=r"in capture|cuda_graph_runner|Capture .*graph begin",
    ),
    Rule(
        "oom_capture",
        rf"{CUDA_OOM}|out of memory occurred when warming up",
        f"{LESS[1]}, or plan less concurrency: fewer graphs",
        VLLM,
        near=r"in capture|capture_model|cudagraph|warming up",
    ),
    Rule("oom", CUDA_OOM, f"{OTHERS}, shorten context_length, or {LESS[0]}", SGLANG),
    Rule("oom", CUDA_OOM, f"{OTHERS}, shorten context_length, or {LESS[1]}", VLLM),
    Rule("oom", CUDA_OOM, f"{OTHERS}, shorten context_length, or use a smaller model"),
    Rule(
        "host_oom",
        r"exit code: -9\b|Cannot allocate memory|DefaultCPUAllocator: can't allocate|^MemoryError",
        "the machine itself ran out of memory (dmesg -T | grep -i oom): close other programs or use"
        " a smaller model",
    ),
    # The draft model.
    Rule(
        "draft_steps",
        r"num_speculative_tokens`? (?:must be|was not) provided",
        "say how many tokens to draft: spec_steps in a preset",
        VLLM,
    ),
    Rule(
        "draft_architecture",
        r"architectures? .*(?:not supported|failed to be inspected)|Unsupported speculative"
        r"|no module or parameter named",
        "the draft model is no EAGLE3 head that this engine knows: see its config.json, and give"
        " another with --draft-model",
        near=r"(?i)eagle|draft|SpeculativeConfig",
        speculative=True,
    ),
    Rule(
        "draft_mismatch",
        r"size mismatch|size of tensor a|shapes? (?:mismatch|cannot be multiplied)"
        r"|load weights of size|invalid for input of size|doesn't match the broadcast shape",
        "the draft model does not fit this target: give a head trained for this very model with"
        " --draft-model",
        speculative=True,
    ),
    Rule(
        "no_speculation",
        r"EAGLE is not supported|speculative decoding is not supported",
        "this backend cannot speculate: use a GPU, another attention backend, or the plain server",
    ),
    # The model.
    Rule(
        "gated",
        r"GatedRepo|gated repo",
        "accept the model's licence on its page and set HF_TOKEN, or give a local path with"
        " --model",
    ),
    Rule(
        "offline",
        r"LocalEntryNotFound|OfflineMode|outgoing traffic has been disabled|couldn't connect to"
        r"|Failed to resolve|Name or service not known|Max retries exceeded",
        "the model is not on this machine and cannot be downloaded: give a local path with --model"
        " (and --draft-model), or unset HF_HUB_OFFLINE",
    ),
    Rule(
        "missing_model",
        r"Repository ?Not ?Found|not a valid model identifier|Repo id must be|HFValidationError"
        r"|Invalid repository ID|does not appear to have a file named config|not a local folder",
        "there is no such model: check the path or repository id after --model and --draft-model",
    ),
    Rule(
        "context_too_long",
        r"User-specified (?:max_model_len|context_length) .* is greater than the derived",
        "context_length is above what the model was made for: lower it (--launch-arg"
        " --max-model-len=N for vLLM, --context-length=N for SGLang)",
    ),
    Rule(
        "unknown_architecture",
        r"Model architectures? .* (?:are|is) not supported|does not recognize this architecture",
        "this version of the engine does not know the model: update it, or choose another model",
    ),
    # The machine.
    Rule(
        "driver_too_old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient",
        "update the NVIDIA driver, or install an engine built for an older CUDA",
    ),
    Rule(
        "no_gpu",
        r"No CUDA GPUs are available|Found no NVIDIA driver|Torch not compiled with CUDA"
        r"|Failed to infer device type|No accelerator|nvidia-smi not found|no CUDA-capable device",
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
        "EAGLE's code needs transformers 4.53: install that in its environment",
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
