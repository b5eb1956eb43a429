"""What a fitted simulator expects beyond its data, with how far forms of about equal fit disagree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from search.analysis.findings import Gain
from search.config import SpecConfig
from search.physics.bands import SHARE, Band, rate_band, ratio_band
from search.physics.files import load_physics
from search.physics.model import Physics
from search.spec.study import StudySpec
from search.stats.estimates import Estimate

BAND_WORDS = f"{SHARE:.0%} band"


@dataclass(frozen=True, slots=True)
class Expectations:
    """Of one fitted cost model at a study's own limits.

    Args:
        physics: Name of the parameter set; with members, see `search.physics.bands`.
        running_limit: Requests that the study's servers admit.
    """

    physics: str
    running_limit: int

    @classmethod
    def of(cls, spec: StudySpec) -> Expectations | None:
        """Those of a study; None where its cost model was fitted to nothing, so that no band is known."""
        if not _physics(spec.simulation.physics).members:
            return None
        return cls(spec.simulation.physics, spec.engine.max_running_requests)

    def rate(self, config: SpecConfig, concurrency: int) -> Estimate:
        """Output tokens per second and the ends of the 90% band."""
        band = _rate(self.physics, self.running_limit, config, concurrency)
        return Estimate(band.value, band.low, band.high)

    def gain(self, config: SpecConfig, over: SpecConfig, concurrency: int) -> Gain:
        """Rate of one over that of another, with the 90% band of the ratio."""
        band = _ratio(self.physics, self.running_limit, config, over, concurrency)
        return Gain(band.value, band.low, band.high, band=True)


@lru_cache(maxsize=8)
def _physics(name: str) -> Physics:
    return load_physics(name)


@lru_cache(maxsize=65536)
def _rate(name: str, limit: int, config: SpecConfig, concurrency: int) -> Band:
    return _known(rate_band(_physics(name), config, concurrency, running_limit=limit))


@lru_cache(maxsize=65536)
def _ratio(name: str, limit: int, config: SpecConfig, over: SpecConfig, concurrency: int) -> Band:
    return _known(ratio_band(_physics(name), config, over, concurrency, running_limit=limit))


def _known(band: Band | None) -> Band:
    assert band is not None, "expectations are made of cost models with members"
    return band
