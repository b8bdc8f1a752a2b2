"""Whether a text reports a failure of its writer's own: public threads, shortened."""

import pytest

from service.startup_log.log import read_log
from service.startup_log.prose.kinds_of_texts import TextKind
from service.startup_log.prose.reports import WhatCounts, decide
from service.startup_log.text.lines import read_lines

MODEL = (
    "[New Model]: {}\n\n### The model to consider.\n\nhttps://huggingface.co/{}\n\n"
    "### What's your difficulty of supporting the model you want?\n\n{}\n"
)
"""The form of vLLM's repository for models that it is asked to add."""
FEATURE = "[Feature]: {}\n\n### \U0001f680 The feature, motivation and pitch\n\n{}\n"
UNFRIENDLY = "\u9519\u8bef\u63d0\u793a\u4e0d\u53cb\u597d"
GUIDE = (
    "[Usage] Qwen3 Usage Guide\n\nIf you are seeing the following error, please upgrade to v0.8.5.\n```\n"
    'File ".../vllm/model_executor/parameter.py", line 149, in load_qkv_weight\n'
    "IndexError: start out of range (expected to be in range of [-18, 18], but got 2048)\n```\n"
)
NO_REPORTS = [
    # vllm-project/vllm#19385, #9868, #14214, #8808, #4982
    MODEL.format("GeoChat (GeoChatLlamaForCausalLM architecture)", "ll-13/x", "New architecture"),
    MODEL.format("NV-Embed-v2", "nvidia/NV-Embed-v2", "_No response_"),
    MODEL.format("pfnet/plamo-2-8b", "pfnet/plamo-2-8b", "_No response_"),
    MODEL.format("allenai/Molmo-7B-0-0924 VisionLM", "allenai/Molmo", "OLMoForCausalLM is supported."),
    # vllm-project/vllm#21062, #15710, #8481, #11655, #17127, #14937, #18120, #7546
    FEATURE.format("Remove xformers for Pixtral", "Xformers is not available on all architectures."),
    FEATURE.format("Cascade attention", "Currently, vLLM does not support it for sliding windows."),
    FEATURE.format("Batch inference", "Currently `llm.chat()` only supports one conversation per inference."),
    FEATURE.format("8bit", "vLLM supports 4bit inflight quantization, but does not support 8bit yet."),
    FEATURE.format(
        "Linebreak tokens", "The assumption no longer holds, which will lead to errors with images."
    ),
    FEATURE.format("Slim Attention", "It can halve the KV cache size without a loss of accuracy."),
    FEATURE.format("MoE LoRA", "However, vLLM does not support LoRA adapters for this model."),
    FEATURE.format("MiniCPM-V", "It seems that multiple 'image_url' inputs are currently not supported."),
    # vllm-project/vllm#19359, #5763: by the headings of the form alone
    "Backwards compatibility\n\n### \U0001f4da The doc issue\n\nHence vllm can't use PyTorch 2.5.\n",
    "DeepSeekCoderV2\n\n### The model to consider.\n\nNot supported: unknown to me how to port it.\n",
    # vllm-project/vllm#4632, #12055, #3090: what is to be done
    "[Performance]: Support draft models on fewer ranks\n\nSpeculative decoding allows a speedup.\n",
    "[Bug]: Drop use of pickle where possible\n\nPickle is a known dangerous combination.\n",
    "Loading models from S3 instead of a local path\n\nA model comes from a local folder or HuggingFace.\n",
    # vllm-project/vllm#8419, #13034, #7397, modelscope/ms-swift#886
    "[Misc]: Can vLLM go out of memory during the decode phase?\n\nCan vLLM go out of memory?\n",
    "[Usage]: LoRA for llava\n\nBut I found it not supported according to the doc here.\n",
    "[Misc]: QKV computation is inefficient\n\nThis is not in response to a performance regression.\n",
    "# NPU\u540e\u7aef\u652f\u6301VLLM\u5417\n\n\u4e0d\u652f\u6301\u7684\n\ngpu\u662f\u652f\u6301\u7684\n",
    # vllm-project/vllm-ascend#14628: about the words of messages, which it quotes
    f"[Bug]: {UNFRIENDLY}\n\n```\nValueError: No available memory for the cache blocks.\n```\n",
    # vllm-project/vllm#16056, #17765, #9465, #4000, #13467, #396: what somebody wants to know
    "[Usage]: v1 engine on CPU\n\nI wonder why v1 engine doesn't support CPU yet?\n",
    "[Usage]: How to truncate\n\nI want to ask what can be done when the prompt length exceeds the limit.\n",
    "[Usage]: Memory of each gpu\n\nI want to use two since it does not fit into one but I wonder how.\n",
    "[Usage]: How to purge requests\n\nOf course I can restart it, but vLLM takes a long time to start-up.\n",
    "[Usage]: How different between 'full response' and 'fixed length output' in the benchmark?\n",
    "EOS tokenizer support.\n\nI was wondering how you were taking care of the eos token that ends it.\n",
    # vllm-project/vllm#1027, #12290
    "Support YaRN models\n\nThe longer context length (up to 128k) is highly valuable.\n",
    # vllm-project/vllm#4052, #15562, #29390, #13395, #19746
    "[Usage]: How to do batch requests\n\nI want to see how batch size impacts the TTFT and TPS.\n",
    FEATURE.format("LMCache on CPU", "This feature was raised during the LMCache meeting yesterday."),
    FEATURE.format("rpc timeout", "There is no way to set timeout for collective_rpc."),
    "[Usage]: Is there any way to reject a request?\n\nI want to, but I can't find any guidance.\n",
    "[Usage]: embed prompts\n\nI'm running vllm on my laptop with no gpu.\n",
    # vllm-project/vllm#17327: a guide with the calls of an error that a reader may see
    GUIDE,
]


@pytest.mark.parametrize("text", NO_REPORTS)
def test_what_wishes_asks_or_instructs_reports_no_failure(text: str) -> None:
    assert read_log(text).failure is None


BFLOAT = (
    "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has 7.5."
)
TOO_LONG = (
    "max seq len (56000) is larger than the maximum number of tokens that can be stored in KV cache (43328)"
)
REPORTS = [
    # vllm-project/vllm#9294, #11391, #3503, and a question on lmdeploy's driver
    (
        MODEL.format("Llama-Guard-3-1B", "x", "It runs, but its outputs are completely random."),
        "wrong_output",
    ),
    (
        f"Where does the default size of the cache come from?\n\nI have encountered {TOO_LONG} often.\n",
        "length_beyond_cache_tokens",
    ),
    (
        f"[Usage]: Set dtype using YAML\n\nI get the following error:\n\n`ValueError('{BFLOAT}')`\n",
        "dtype_not_on_this_gpu",
    ),
    ("Can cuda 11.6 run this project? It shows that the NVIDIA driver is too old.\n", "driver_too_old"),
    # Wishes of somebody who met a failure, or who shows what a program prints.
    (FEATURE.format("Large models", "I tried it with 70B, but it ran out of memory."), "out_of_memory"),
    (
        FEATURE.format("HQQ", "```\nvllm: error: unrecognized arguments: --enable-hqq\n```"),
        "unknown_argument",
    ),
    # vllm-project/vllm#30128, #18231, #3694, #13763, #40205, #25745: titles that look like code
    ("[Bug]: raise error when setting --pipeline_parallel_size > 3 in ray\n", "pipeline_failed"),
    ("[Bug]: NeuronExecutor.__init__() takes 7 positional arguments but 8 were given\n", "engine_fault"),
    ("[Bug]: Generation mismatch with Model: meta-llama/Llama-3.2-11B\n", "wrong_output"),
    ("[CI Failure]: mi250_1: V1 Sample + Logits\n", "test_not_passed"),
    ("[CI Failure]: tests/v1/kv_connector/unit/test_shared_storage_connector.py\n", "test_not_passed"),
    # vllm-project/vllm#20341, #12274, #34579, #12610, #4081, #2742, #1128, #19014
    ("[Performance]: why vllm-0.6.1.post2 faster than latest vllm=0.6.6.post1?\n", "slower_than_expected"),
    ("[Performance]: vLLM's throughput lags behind for single prompt\n", "slower_than_expected"),
    ("[Bug]: GPU memory usage gradually increases.\n", "memory_grows"),
    ("[Bug]: TypeError: 'ABCMeta' object is not subscriptable\n", "python_too_old"),
    ("When using tp =2 in greedy mode and vllm 0.3 , results are random\n", "wrong_output"),
    ("# the output is not equals compare to huggingface .\n", "wrong_output"),
    ("[Bug]: Qwen-2.5 VL inference speed very low\n", "slower_than_expected"),
    # vllm-project/vllm#20611, #10280, #16832, #32364, #25560, #18167, #22568
    ("[Bug]: can not get the result in tool_calls when stream is true\n", "tool_call_not_parsed"),
    ("[Bug]: the output is right in 0.6.1, but wrong in 0.6.3?\n", "wrong_output"),
    ("[Bug]: PreemptionMode.RECOMPUTE\n\nThe preempted output is incomplete.\n", "wrong_output"),
    ("[Bug]: generation slows down noticeably when DP is enabled\n", "slower_than_expected"),
    ("[Bug]: GPT oss shows tool call argument in response content\n", "tool_call_not_parsed"),
    ("[HELP WANTED] Fix Failing KVEvents Test\n", "test_not_passed"),
    ("[Usage]: VRAM spike\n\nLoading it generates OOM errors, and I think it's not used.\n", "out_of_memory"),
    # vllm-project/vllm#9448: what is left out is no part of it
    ("[Bug]: answers\n\nWithout speculative decoding we still get incomplete answers.\n", "wrong_output"),
    # vllm-project/vllm#16588: a task beside which something is said to fail
    ("# Support it in offline mode\n\nThe model initialization gets stuck in a hang.\n", "worker_hangs"),
]


@pytest.mark.parametrize(("text", "cause"), REPORTS)
def test_who_met_a_failure_reports_it_whatever_the_title_is(text: str, cause: str) -> None:
    failure = read_log(text).failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("[Bug]: the engine hangs\n", WhatCounts.ALL),
        ("[Usage]: the engine hangs\n", WhatCounts.ALL),
        ("[Usage]: why does the engine hang?\n", WhatCounts.ALL),
        ("[Usage]: how to set a seed\n", WhatCounts.TROUBLE),
        ("[Usage]: how to set a seed\n\n### Describe the bug\n\nIt is ignored.\n", WhatCounts.ALL),
        ("Support Nemotron\n", WhatCounts.TROUBLE),
        ("[Feature]: Serve metrics while a model is loading\n", WhatCounts.MET),
        ("Add a probe\n\n/kind feature\n\nThe pod is killed.\n", WhatCounts.MET),
        ("[Doc]: API reference\n", WhatCounts.MET),
        ("[RFC]: Drop OpenVINO\n", WhatCounts.PRINTED),
        ("[Roadmap] Q2 2025\n", WhatCounts.PRINTED),
        ("## v0.9.1\n\n- Fixed a crash in the engine\n", WhatCounts.NOTHING),
        ("[Feature]: Friendlier message when the KV cache does not fit\n", WhatCounts.NOTHING),
    ],
)
def test_the_title_and_the_headings_of_the_form_say_what_counts(text: str, counts: WhatCounts) -> None:
    """The forms of vLLM's repository: .github/ISSUE_TEMPLATE of 0.33.0."""
    lines = read_lines(text)
    assert decide(lines, lines).counts is counts


def test_a_wish_by_its_form_alone_is_called_one() -> None:
    """vllm-project/vllm#5763."""
    about = read_log("DeepSeekCoderV2\n\n### The model to consider.\n\nhttps://x.y/z\n").around.about
    assert about is not None
    assert about.kind is TextKind.WISH
