"""Rules that depend on the device, the model or a flag: cases, of which the first that applies counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchDefaults:
    """Default batch limits of one class of devices."""

    min_gib: int
    tokens: int
    seqs: int
    not_named: str = ""
    """A device whose lower-case name contains this is of another class; empty excludes none."""
    not_capability: str = ""
    """A device of this compute capability is of another class; empty excludes none."""

    def applies(self, gib: float, name: str, capability: str) -> bool:
        """Whether a device is of this class."""
        excluded = bool(self.not_named) and self.not_named in name.lower()
        return gib >= self.min_gib and not excluded and capability != self.not_capability


@dataclass(frozen=True, slots=True)
class MlaBlock:
    """The block size that one MLA backend imposes before backends are chosen."""

    backend: str
    """For sparse attention, the requested backend; empty for any other."""
    capabilities: tuple[str, ...]
    """Compute capabilities on which the backend can run, and is assumed when none is requested."""
    block: int
    keeps: tuple[int, ...] = ()
    """Sizes that are left as they are."""
    keeps_multiples_of: tuple[int, ...] = ()
    qk_nope_head_dim: int | None = None
    """The only head dimension for which the backend is assumed."""
    sparse: bool = False
    """Whether this is for sparse attention, on every device; what is for others is not for it."""

    def applies(self, requested: str | None, capability: str, qk_nope_head_dim: int, *, sparse: bool) -> bool:
        """Whether this backend is requested or assumed."""
        if sparse or self.sparse:
            return sparse and self.sparse and self.backend in {"", requested}
        if capability not in self.capabilities:
            return False
        return (
            self.qk_nope_head_dim in {None, qk_nope_head_dim}
            if requested is None
            else requested == self.backend
        )

    def impose(self, block_size: int) -> int:
        """Return what becomes of a block size."""
        unchanged = block_size in self.keeps or any(
            block_size % unit == 0 for unit in self.keeps_multiples_of
        )
        return block_size if unchanged else self.block


@dataclass(frozen=True, slots=True)
class RowAlignedBlock:
    """A backend of sparse MLA for which the bytes of a block over all layers are whole rows."""

    backend: str
    slots: bool | None = None
    """Only with rows that are slots of fixed bytes, or only with other ones; ``None`` with both."""
    capability_major: int | None = None
    """The only generation of GPUs."""

    def applies(self, backend: str, capability_major: int, *, slots: bool) -> bool:
        """Whether a layer's rows align blocks."""
        return (
            backend == self.backend
            and self.slots in {None, slots}
            and self.capability_major in {None, capability_major}
        )


@dataclass(frozen=True, slots=True)
class KernelBlock:
    """Tokens of which the block of a hybrid is a multiple."""

    block: int
    mla: bool = False
    """Whether this is for MLA alone."""
    head_size: int | None = None
    capabilities: tuple[str, ...] = ()
    """Compute capabilities for which this is; empty: all."""
    backends: tuple[str, ...] = ()
    """Requested backends, of which "" is none; empty: any."""

    def applies(self, *, mla: bool, head_size: int, capability: str, requested: str | None) -> bool:
        """Whether this is the case of a model on a device."""
        return (
            (mla or not self.mla)
            and self.head_size in {None, head_size}
            and (not self.capabilities or capability in self.capabilities)
            and (not self.backends or (requested or "") in self.backends)
        )


@dataclass(frozen=True, slots=True)
class StateCheckpoint:
    """Recurrent layers that export a state in the middle of a prompt."""

    state: str
    """Kind of recurrent layer, such as ``gated_delta_net``."""
    alignment: int
    """Tokens to which blocks are aligned."""
    capabilities: tuple[str, ...] = ()
    """Compute capabilities whose kernels can; empty: all."""
    key_head_dim: int | None = None
    """The only key dimension that the kernels take; ``None``: any."""

    def applies(self, state: str, capability: str, key_head_dim: int | None) -> bool:
        """Whether a layer of this kind and key dimension exports its state on a device."""
        return (
            state == self.state
            and (not self.capabilities or capability in self.capabilities)
            and self.key_head_dim in {None, key_head_dim}
        )


@dataclass(frozen=True, slots=True)
class ActivationTypes:
    """Types that a model may run in whose checkpoint has a certain format."""

    checkpoint: str
    """``quant_method`` of the checkpoint."""
    name: str
    """The format by the release's own name."""
    dtypes: tuple[str, ...]
    """In the order in which the release lists them."""


@dataclass(frozen=True, slots=True)
class QuantizationOverride:
    """A checkpoint's format that a release runs by another method, or whatever ``--quantization`` says."""

    runs_as: str
    """The method that runs it."""
    stored: tuple[str, ...] = ()
    """``quant_method`` of the checkpoint; empty: any."""
    flags: tuple[str, ...] = ()
    """Values of ``--quantization``, of which "" is none; empty: any."""
    model_types: tuple[str, ...] = ()
    """``model_type`` of the config; empty: any."""

    def applies(self, stored: str, flag: str | None, model_type: str) -> bool:
        """Whether a checkpoint is run by this method."""
        return (
            (not self.stored or stored in self.stored)
            and (not self.flags or (flag or "") in self.flags)
            and (not self.model_types or model_type in self.model_types)
        )
