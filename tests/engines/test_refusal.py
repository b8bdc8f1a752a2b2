"""A refusal that names the GPU says the same of another one."""

from service.engines.refusal import EngineRefusal, Stage


def test_a_refusal_names_the_device_that_it_is_told_of() -> None:
    refusal = EngineRefusal(Stage.BACKEND, "not on NVIDIA A10G", type="E", detail="why", device="NVIDIA A10G")

    other = refusal.on("NVIDIA L4")

    assert (other.message, other.device) == ("not on NVIDIA L4", "NVIDIA L4")
    assert (other.stage, other.type, other.detail) == (Stage.BACKEND, "E", "why")
    assert refusal.on("NVIDIA A10G") is refusal
    plain = EngineRefusal(Stage.BACKEND, "on no device")
    assert plain.on("NVIDIA L4") is plain
