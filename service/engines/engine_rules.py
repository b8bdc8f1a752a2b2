"""What one release does: a record of groups of rules."""

from dataclasses import dataclass

from packaging.version import Version

from service.engines.rules.adapters import AdapterRules
from service.engines.rules.admission import AdmissionRules
from service.engines.rules.auto_round import AutoRoundRules
from service.engines.rules.batches import BatchRules
from service.engines.rules.blocks import BlockRules
from service.engines.rules.capacity import CapacityRules
from service.engines.rules.checkpoints import CheckpointRules
from service.engines.rules.config_fields import ConfigFieldRules
from service.engines.rules.dtypes import DtypeRules
from service.engines.rules.gguf import GgufRules
from service.engines.rules.groups import GroupRules
from service.engines.rules.indexers import IndexerRules
from service.engines.rules.kernels import KernelRules
from service.engines.rules.layouts import LayoutRules
from service.engines.rules.lengths import LengthRules
from service.engines.rules.packed_experts import PackedExpertRules
from service.engines.rules.pages import PageRules
from service.engines.rules.parallelism import ParallelismRules
from service.engines.rules.pooling import PoolingRules
from service.engines.rules.quark import QuarkRules
from service.engines.rules.specs import SpecRules
from service.engines.rules.speculation import SpeculationRules
from service.engines.rules.states import StateRules
from service.engines.rules.tied_outputs import TiedOutputRules
from service.engines.rules.transfers import TransferRules
from service.engines.rules.windows import WindowRules


@dataclass(frozen=True, slots=True)
class EngineRules:
    """The rules of one release, by topic."""

    release: Version
    dtypes: DtypeRules
    specs: SpecRules
    blocks: BlockRules
    pages: PageRules
    groups: GroupRules
    capacity: CapacityRules
    admission: AdmissionRules
    states: StateRules
    checkpoints: CheckpointRules
    config_fields: ConfigFieldRules
    layouts: LayoutRules
    packed_experts: PackedExpertRules
    tied_outputs: TiedOutputRules
    windows: WindowRules
    auto_round: AutoRoundRules
    quark: QuarkRules
    gguf: GgufRules
    lengths: LengthRules
    parallelism: ParallelismRules
    kernels: KernelRules
    batches: BatchRules
    speculation: SpeculationRules
    adapters: AdapterRules
    indexers: IndexerRules
    transfers: TransferRules
    pooling: PoolingRules
    doubt: str = ""
    """Why the engine that is planned may behave otherwise; empty for a release that was checked."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """The doubt, or nothing."""
        return (self.doubt,) if self.doubt else ()

    def __hash__(self) -> int:
        # Patches change the rest, by which rules of one release are compared.
        return hash(self.release)
