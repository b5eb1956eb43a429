"""FrontierSampler passes Optuna's own exam for samplers."""

import pytest
from optuna.testing.pytest_samplers import BasicSamplerTestCase, MultiObjectiveSamplerTestCase

from search.config import SpecConfig
from search.samplers.frontier import FrontierSampler

SPACE = [SpecConfig("off")] + [
    SpecConfig(version, topk, steps, steps + 1) for version in ("v1", "v2") for topk in (1, 2) for steps in range(1, 31)
]


class TestFrontierSampler(BasicSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: FrontierSampler(configs=SPACE, seed=0)
