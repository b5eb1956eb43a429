"""BoTorch's noisy expected hypervolume improvement over the finite list; needs the `rivals` extra."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.race.rivals.expected import Array
from benchmarks.race.rivals.finite_gp import FiniteGp, logs
from benchmarks.race.tables import Table

MISSING = 'needs torch and botorch: `pip install ".[rivals]"`'


def missing() -> str:
    """Why it cannot race here; empty when it can."""
    return "" if find_spec("torch") and find_spec("botorch") else MISSING


class BotorchEntrant(FiniteGp):
    """`qLogNoisyExpectedHypervolumeImprovement` on one `SingleTaskGP` per objective, all defaults.

    Candidates, features, logarithms, reference point and the share of feasible launches are those
    of the plain rival: what differs is the model and the acquisition.
    """

    def __init__(self, table: Table, *, seed: int) -> None:
        super().__init__(table, seed=seed)
        self._seed = seed

    def gain(self, at: Array) -> Array:
        """See `FiniteGp`."""
        import torch
        from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import ModelListGP, SingleTaskGP
        from botorch.models.transforms import Standardize
        from botorch.sampling import SobolQMCNormalSampler
        from gpytorch.mlls import SumMarginalLogLikelihood

        torch.set_num_threads(1)
        torch.manual_seed(self._seed)
        measured = self.measured()
        rows = self.at(measured)
        low, high = np.minimum(rows.min(axis=0), at.min(axis=0)), np.maximum(rows.max(axis=0), at.max(axis=0))
        unit = np.where(high > low, high - low, 1.0)

        def tensor(values: Array) -> Any:
            return torch.tensor(values, dtype=torch.double)

        known, wanted = tensor((rows - low) / unit), tensor((at - low) / unit)
        # BoTorch maximises.
        values = tensor(-logs(measured.values()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ModelListGP(
                *(SingleTaskGP(known, values[:, [place]], outcome_transform=Standardize(m=1)) for place in range(2))
            )
            fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
            acquisition = qLogNoisyExpectedHypervolumeImprovement(
                model=model,
                ref_point=(-self.reference()).tolist(),
                X_baseline=known,
                sampler=SobolQMCNormalSampler(torch.Size([128]), seed=self._seed),
                prune_baseline=True,
            )
            with torch.no_grad():
                found = acquisition(wanted[:, None, :])
        gain: Array = np.exp(found.numpy())
        return gain
