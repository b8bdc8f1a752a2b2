"""Two releases of which a person says that one works: the titles and sentences are of public threads."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.environment.surroundings import read_surroundings
from service.startup_log.log import read_log
from service.startup_log.prose.said_releases import said_releases
from service.startup_log.text.lines import read_lines

SAID = [
    # vllm-project/vllm#4210
    ("Performance Regression between v0.4.0 and v0.4.1", "0.4.0", "0.4.1"),
    # verl-project/verl#5964
    ("Aarch64 GB200 container perf regression from vllm 0.17 to vllm 0.18", "0.17", "0.18"),
    # vllm-project/vllm#17685
    (
        "[Bug]: Offline inference data parallel significantly slower in 0.8.2 than 0.6.4.post1",
        "0.6.4.post1",
        "0.8.2",
    ),
    # vllm-project/vllm#11251
    (
        "[Bug]: torch.OutOfMemoryError for 0.6.4.post1 but 0.6.3.post1 is working",
        "0.6.3.post1",
        "0.6.4.post1",
    ),
    # vllm-project/vllm-ascend#7712
    (
        "[Bug]: \u81ea\u7814\u6a21\u578b\u4ece0.11\u5347\u7ea7\u52300.13\u7cbe\u5ea6\u51fa\u73b0\u95ee\u9898",
        "0.11",
        "0.13",
    ),
    # vllm-project/vllm#15597
    (
        "0.7.0\u7248\u672c\u5185\u5b58\u4e0d\u91ca\u653e\uff0c\u6d4b\u8bd5\u53d1\u73b00.6.6\u7248\u672c\u65e0\u6b64\u95ee\u9898\u3002",
        "0.6.6",
        "0.7.0",
    ),
    # huggingface/trl#3142
    (
        "# TRL vllm-serve fails to load certain models\n\nDowngrading from 0.8.3 to 0.8.1 fixed the issue!",
        "0.8.1",
        "0.8.3",
    ),
    (
        "The exact same setup works perfectly with v0.25.0, but consistently fails on v0.26.0",
        "0.25.0",
        "0.26.0",
    ),
    ("[Bug]: It crashes\n\nUpgrading from 0.9.1 to 0.9.2 solved it for us", "0.9.2", "0.9.1"),
]


@pytest.mark.parametrize(("text", "works", "fails"), SAID)
def test_the_release_that_works_is_told_from_the_one_that_does_not(text: str, works: str, fails: str) -> None:
    said = said_releases(read_lines(text))

    assert said is not None
    assert (said.works, said.fails) == (works, fails)


@pytest.mark.parametrize(
    "text",
    [
        # Shares of memory, other packages, releases that are only named, changes that mend nothing.
        "[Bug]: OOM\n\nWhen I increase utilization from 0.8 to 0.9 it fails with OOM",
        "It fails\n\nWith CUDA 12.4 it works and with 12.8 it fails",
        "Upgrading from transformers 4.51 to 4.52 breaks loading",
        "feat: upgrade vllm from 0.25.1 to 0.27.1 for CUDA and ROCm backends",
        "[Bug]: Different logprobs output behaviour under vllm 0.8.0 and 0.8.1",
        "[Bug]: It hangs\n\nUpgrading from 0.9.1 to 0.9.1 does not help",
        # Releases of projects that are named before them.
        "[Bug]: It works on v0.9.1 for Llama and fails for Qwen\n\nOn both hosts lmcache 0.3.1 is installed.",
        "[Bug]: Crash on H100\n\nvLLM 0.10.0 works fine with tokenizers 0.21.1 and xgrammar==0.1.19 here.",
        # What is asked, hoped or the same as before.
        "[Bug]: The engine fails with v0.11.0\n\nWould it work with 0.12.0?",
        "[Bug]: It fails\n\nDoes this work with vllm 0.10.0? I have only tried vllm 0.11.0 so far.",
        "[Bug]: It fails\n\nI hoped that going from 0.9.0 to 0.10.0 fixes it, and it fails the same way.",
        "[Bug]: It fails\n\nAfter upgrading from 0.9.0 to 0.10.0 it still crashes.",
    ],
)
def test_releases_that_are_only_named_are_no_pair(text: str) -> None:
    assert said_releases(read_lines(text)) is None


def test_the_answer_says_with_which_release_it_works() -> None:
    older = diagnose(read_log("[Bug]: The server hangs with 0.5.2 (0.5.1 is fine)"), None)
    later = diagnose(read_log("[Bug]: The server hangs\n\nUpgrading from 0.9.1 to 0.9.2 fixed it"), None)

    assert older is not None
    assert later is not None
    assert any("stay with 0.5.1" in note for note in older.notes)
    assert any("use 0.9.2 or a later release" in note for note in later.notes)


@pytest.mark.parametrize(
    ("sentence", "works"),
    [
        # OpenRLHF/OpenRLHF#211; huggingface/trl#3142
        ("OK ! pip install vllm==0.2.4 is all you need !!", True),
        ("Downgrading from 0.8.3 to 0.8.1 fixed the issue!", True),
        ("The default gpu_memory_utilization is 0.90, and the above command can run normally.", True),
        ("Downgrading has not fixed the issue.", False),
    ],
)
def test_what_mended_it_is_shown(sentence: str, works: bool) -> None:
    around = read_surroundings(read_lines(f"[Bug]: The server hangs\n\n{sentence}"))

    assert bool(around.works) is works


@pytest.mark.parametrize(
    ("title", "named"),
    [
        # LMCache/LMCache#2453, vllm-project/vllm#9688, vllm-project/vllm#1298
        (
            "[Bug] After setting LMCACHE_USE_LAYERWISE=True, vLLM crashes after a request",
            ("LMCACHE_USE_LAYERWISE=True",),
        ),
        ("[Bug]: lora is not loaded using `num_scheduler_steps=8`", ("num_scheduler_steps=8",)),
        ("[Bug] OOM occurs after setting gpu_memory_utilization to 1.0", ("gpu_memory_utilization",)),
        # Of vllm-project/vllm: a setting that is the subject of the title.
        ("[Bug]: --stream-interval > 1 causes tool call arguments to be empty/lost", ("--stream-interval",)),
        ("[Bug]: v0.8.2, enable calculate_kv_scales, caught exception", ("calculate_kv_scales",)),
        ("[Bug]: --stream-interval is not documented, which breaks scripts", ()),
        ("[Bug]: Crash with CUDA_VISIBLE_DEVICES=1", ()),
        ("[Bug]: It fails with torch_dtype of transformers", ()),
    ],
)
def test_settings_of_a_title_are_known_in_any_spelling(title: str, named: tuple[str, ...]) -> None:
    assert read_surroundings(read_lines(title)).titled == named


def test_a_title_in_chinese_with_a_word_in_brackets_is_no_call() -> None:
    """The title of vllm-project/vllm#15597."""
    title = (
        "[Bug]:vllm\u4ece0.7.0\u5f00\u59cb\u7248\u672c\u90e8\u7f72\u670d\u52a1\u5b58\u5728"
        "\u5185\u5b58(\u4e0d\u662fGPU\u663e\u5b58)\u6cc4\u6f0f\u95ee\u9898"
    )

    found = diagnose(read_log(title), None)

    assert found is not None
    assert "0.7.0" in found.message


def test_an_older_release_that_was_tried_in_vain_does_not_work() -> None:
    """The form of vllm-project/vllm#27602."""
    text = (
        "I run the latest version (0.11.0). I tried downgrading to vllm 0.9.2 after reviewing other issues "
        "but these produced complete nonsensical outputs.\n"
    )

    assert said_releases(read_lines(text)) is None
    assert said_releases(read_lines("0.11.0 crashes. I downgraded to vllm 0.9.2, which works.\n")) is not None
