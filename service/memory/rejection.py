"""What the V1 model runner's rejection sampler holds of all logits while it is profiled."""

from dataclasses import dataclass

from service.memory.weights.schemes.quantized import FLOAT32


@dataclass(frozen=True, slots=True)
class RejectionRun:
    """Logits of one request that are there at once, whose draft has one token."""

    rows: int
    """Rows in the model's dtype: of the draft token and of the token after it, and a copy of the latter."""
    beside: int
    """Float32 copies beside those of the sampler, while its code runs over one of the two rows."""
    drawn: int
    """Float32 copies while tokens are drawn for rejected ones."""

    def bytes_per_logit(self, sampler_copies: float, element_bytes: int) -> float:
        """Return the bytes that a request's logit takes where it takes most."""
        copies = max(self.beside + sampler_copies, self.drawn)
        return self.rows * element_bytes + copies * FLOAT32
