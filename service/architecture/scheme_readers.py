"""Reads from a ``quantization_config`` which modules are stored how."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, compress, repeat
from operator import contains
from typing import Final

from service.architecture.alike import alike, kinds_of
from service.architecture.auto_round_schemes import names_output, read_auto_round
from service.architecture.compressed_schemes import read_compressed_tensors
from service.architecture.config import Config
from service.architecture.quark_schemes import read_quark
from service.architecture.uniform_lists import (
    MOST_EXPRESSIONS,
    OTHERS,
    Literals,
    labelled_literals,
    marks_of,
    texts_of,
)
from service.architecture.weight_schemes import (
    AWQ_BITS,
    BITSANDBYTES_4BIT,
    MAX_GROUPS,
    MXFP8_SCHEME,
    Granularity,
    Names,
    SchemeGroup,
    WeightFormat,
    WeightScheme,
    block_sides,
    modelopt_scheme,
    positive_group_size,
)


def read_scheme_groups(section: Config, method: str) -> tuple[SchemeGroup, ...]:
    """Read which modules a ``quantization_config`` stores how.

    Nothing is returned for a method whose layout is not known: its weights cannot be computed.

    Raises:
        InvalidConfig: a field is malformed.
    """
    read = _READERS.get(method)
    return read(section) if read is not None else ()


TAKEN: Final = "+:"
EXCEPT: Final = "-:"
"""Begins a pattern of GPTQ's ``dynamic`` whose modules stay unquantized."""
OVERRIDDEN: Final = ("bits", "desc_act", "group_size", "sym")
"""What an entry of ``dynamic`` may say."""
EXPERTS: Final = ".experts."
_OF_ONE_PARENT: Final = re.compile(r"^(.*?)\.experts\..*+(?:\n\1\.experts\..*+)*+", re.MULTILINE)
"""Names that follow each other, of parts of the same experts."""
OUTPUT: Final = frozenset({"auto_awq", "auto_gptq", "awq", "awq_marlin", "gptq", "gptq_marlin"})
"""Methods whose configs say whether the output embedding is quantized.

Source: vLLM 0.13.0 to 0.33.0, utils/gptq_utils.py get_linear_quant_method; get_quant_method of
AWQMarlinConfig and AutoAWQConfig.
"""


def quantizes_output(section: Config, method: str) -> bool:
    """Return whether a config says that the output embedding is quantized; ModelOpt's do not say so."""
    if _READERS.get(method) is read_auto_round:
        return names_output(section)
    return method in OUTPUT and section.boolean("lm_head")


def _fp8(section: Config) -> tuple[SchemeGroup, ...]:
    block = block_sides(section, "weight_block_size")
    scheme = WeightScheme(
        WeightFormat.FP8,
        Granularity.BLOCK if block else Granularity.TENSOR,
        block=block,
        static_activations=section.text("activation_scheme") == "static",
    )
    return (SchemeGroup(scheme),)


def _awq(section: Config) -> tuple[SchemeGroup, ...]:
    scheme = WeightScheme(
        WeightFormat.AWQ,
        Granularity.GROUP,
        bits=section.integer("bits", "w_bit", default=AWQ_BITS, maximum=8),
        group_size=positive_group_size(section, "group_size", "q_group_size"),
        symmetric=not section.boolean("zero_point", default=True),
    )
    return (SchemeGroup(scheme),)


def _gptq(section: Config) -> tuple[SchemeGroup, ...]:
    """Source: vLLM 0.32.0, utils/gptq_utils.py get_dynamic_override: the first match decides."""
    dynamic = section.section("dynamic")
    overrides = () if dynamic is None else _overrides(dynamic, section)
    return () if overrides is None else (*overrides, SchemeGroup(_gptq_scheme(section, section)))


def _overrides(dynamic: Config, section: Config) -> tuple[SchemeGroup, ...] | None:
    """Return the groups of ``dynamic``, ``None`` if they are too many or may match a module twice."""
    if len(dynamic.fields) <= MAX_GROUPS:
        return tuple(
            SchemeGroup(
                None if name.startswith(EXCEPT) else _gptq_scheme(part, section),
                _expressions(_unsigned([name])),
            )
            for name, part in dynamic.sections()
        )
    with suppress(LookupError):
        return tuple(_many_overrides(dynamic, section))
    return None


def _many_overrides(dynamic: Config, section: Config) -> Iterator[SchemeGroup]:
    """Yield a group for each scheme.

    No module has two of many names. Expressions may match a module twice, so only those of one scheme are
    grouped.

    Raises:
        LookupError: there are too many schemes, or expressions of several.
    """
    names = list(dynamic.fields)
    excluded = marks_of(names, EXCEPT)
    found: dict[WeightScheme | None, Literals] = {}
    if 1 in excluded:
        (found[None],) = labelled_literals(list(compress(names, excluded)), EXCEPT)
        if 0 in excluded:
            _check_named(found.values())
    kinds = kinds_of(dynamic, OVERRIDDEN, excluded.translate(OTHERS) if 1 in excluded else None)
    schemes: dict[WeightScheme | None, list[int]] = {}
    for number, part in enumerate(kinds.examples):
        schemes.setdefault(_gptq_scheme(part, section), []).append(number)
    if len(found) + len(schemes) > MAX_GROUPS:
        raise LookupError("too many schemes")
    if schemes:
        found |= zip(schemes, _taken(kinds.names, kinds.labelled(list(schemes.values()))), strict=True)
    if len(found) > 1:
        _check_named(found.values())
    for scheme, (literals, others) in found.items():
        yield from (SchemeGroup(scheme, Names.of(part, form)) for part, form in literals)
        if others:
            yield SchemeGroup(scheme, _expressions(_unsigned(others[:MOST_EXPRESSIONS])))


def _taken(names: list[str], labels: bytes) -> Sequence[Literals]:
    """Return the patterns of each label; ``+:`` may be left out."""
    if 0 in marks_of(names, TAKEN):
        return labelled_literals(_unsigned(names), labels=labels)
    return labelled_literals(names, TAKEN, labels=labels)


def _check_named(found: Iterable[Literals]) -> None:
    """Check that all patterns match the names that begin with them and no others.

    Raises:
        LookupError: some are expressions.
    """
    if any(others or any(form.anywhere for _, form in literals) for literals, others in found):
        raise LookupError("expressions of several schemes")


def _unsigned(names: list[str]) -> list[str]:
    return [name[len(TAKEN) :] if name.startswith((TAKEN, EXCEPT)) else name for name in names]


def _expressions(patterns: list[str]) -> Names:
    return Names.of([f"re:{pattern}" for pattern in patterns])


def _gptq_scheme(part: Config, section: Config) -> WeightScheme:
    bits = section.integer("bits", default=4, maximum=8)
    size = positive_group_size(part if "group_size" in part else section, "group_size")
    # With one scale for a whole row the order of the inputs does not matter, and is dropped.
    ordered = size is not None and part.boolean("desc_act", default=section.boolean("desc_act"))
    return WeightScheme(
        WeightFormat.GPTQ,
        Granularity.GROUP,
        bits=part.integer("bits", default=bits, maximum=8),
        group_size=size,
        symmetric=part.boolean("sym", default=section.boolean("sym", default=True)),
        activation_order=ordered,
    )


def _bitsandbytes(section: Config) -> tuple[SchemeGroup, ...]:
    """Source: vLLM 0.24.0, BitsAndBytesConfig.from_config: four bits unless eight are asked for."""
    eight = section.boolean("load_in_8bit")
    whole_rows = WeightScheme(WeightFormat.BITSANDBYTES, Granularity.CHANNEL, bits=8)
    return (SchemeGroup(whole_rows if eight else BITSANDBYTES_4BIT),)


def _mxfp4(_: Config) -> tuple[SchemeGroup, ...]:
    return (SchemeGroup(WeightScheme(WeightFormat.MXFP4, Granularity.GROUP, bits=4, group_size=32)),)


def _mxfp8(_: Config) -> tuple[SchemeGroup, ...]:
    return (SchemeGroup(MXFP8_SCHEME),)


def _modelopt(section: Config) -> tuple[SchemeGroup, ...]:
    inner = section.section("quantization") or section
    size = positive_group_size(inner, "group_size")
    layers = inner.section("quantized_layers")
    if layers is None:
        scheme = modelopt_scheme(inner.text("quant_algo"), size)
        return () if scheme is None else (*_modelopt_experts(scheme), SchemeGroup(scheme))
    targets: dict[WeightScheme, dict[str, None]] = {}
    try:
        kinds = list(alike(layers, ("quant_algo", "group_size")))
    except LookupError:
        return ()
    for names, layer in kinds:
        scheme = modelopt_scheme(layer.text("quant_algo"), positive_group_size(layer, "group_size") or size)
        if scheme is None:
            return ()
        targets.setdefault(scheme, {}).update(dict.fromkeys(_mixed_names(names)))
    if len(targets) > MAX_GROUPS:
        return ()
    return tuple(SchemeGroup(scheme, Names.of(names)) for scheme, names in targets.items())


def _modelopt_experts(scheme: WeightScheme) -> Iterator[SchemeGroup]:
    """Yield how experts are stored in a checkpoint of one FP8 algorithm: with a scale for each matrix.

    Source: vLLM 0.24.0 and 0.32.0, modelopt.py ModelOptFp8MoEMethod.create_weights.
    """
    if scheme.format is WeightFormat.FP8 and scheme.granularity is not Granularity.TENSOR:
        experts = WeightScheme(WeightFormat.FP8, Granularity.TENSOR, static_activations=True)
        yield SchemeGroup(experts, Names.of(("*.experts",)))


def _mixed_names(names: list[str]) -> Iterator[str]:
    """Yield the names of modules; parts of experts are named by the fused experts, once.

    Source: vLLM 0.32.0, ModelOptMixedPrecisionConfig._resolve_quant_algo: any name that begins with the fused
    module's decides.
    """
    marks = bytes(map(contains, names, repeat(EXPERTS)))
    yield from compress(names, marks.translate(OTHERS))
    parts = chain.from_iterable(map(_OF_ONE_PARENT.finditer, texts_of(list(compress(names, marks)))))
    for parent in dict.fromkeys(part[1] for part in parts):
        yield f"{parent}.experts"


_READERS: Final[Mapping[str, Callable[[Config], tuple[SchemeGroup, ...]]]] = {
    "fp8": _fp8,
    "awq": _awq,
    "awq_marlin": _awq,
    "auto_awq": _awq,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "auto_gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "gpt_oss_mxfp4": _mxfp4,
    "mxfp8": _mxfp8,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "modelopt_mxfp8": _modelopt,
    "compressed-tensors": read_compressed_tensors,
    "quark": read_quark,
    "inc": read_auto_round,
    "auto-round": read_auto_round,
    "auto_round": read_auto_round,
}
