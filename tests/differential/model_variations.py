from __future__ import annotations
import dataclasses
SEED=1
@dataclasses.dataclass
class Case:
    name: str
    config: dict
def variations(n, seed):
    return iter(())
