"""What goes wrong with a model, its draft or the memory for them: rows of causes.py."""

from .rules import SGLANG, VLLM, Rule

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
        r"models?'s max seq len \(\d+\)",  # with this slip in older versions
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
        "draft_context",
        r"Target model's context_length .* is greater than the derived",
        "the draft model says that it was made for a shorter context: set"
        " SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 in a preset's env, as the launchers do, or"
        " lower context_length",
        SGLANG,
    ),
    Rule(
        "draft_context",
        r"device-side assert triggered",
        "most likely a prompt longer than the draft model was made for (max_position_embeddings in"
        " its config.json): use vLLM 0.31 or later, or a copy of the head that says as much as"
        " context_length there",
        VLLM,
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
)
