"""The k-NN probe against scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from mdc.extensions.neighbours import knn
from mdc.extensions.neighbours.knn import votes
from mdc.plan.records import UserError


def features(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, 16, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
def test_shares_are_those_of_scikit_learn(several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "_COSINES", 7 * 200)  # in chunks of 7 test items
    train, test, draws = features(200, 0), features(45, 1), torch.Generator().manual_seed(2)
    targets = torch.randint(0, 2 if several else 5, (200, 4) if several else (200,), generator=draws)
    peer = KNeighborsClassifier(20, metric="cosine", weights=lambda distances: np.exp((1 - distances) / 0.07))
    told = peer.fit(train.double().numpy(), targets.numpy()).predict_proba(test.double().numpy())
    wanted = np.stack([share[:, 1] for share in told], axis=1) if several else told
    found = votes(train, targets.float() if several else targets, test, 4 if several else 5, 20, 0.07)
    assert found.shape == wanted.shape and np.abs(found.numpy() - wanted).max() < 1e-5


def test_a_vote_weighs_by_its_cosine() -> None:
    train = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    found = votes(train, torch.tensor([0, 1, 1]), torch.tensor([[5.0, 0.0]]), 3, 2, 0.5)
    near, next_ = np.exp(1 / 0.5), np.exp(np.sqrt(0.5) / 0.5)
    assert found.tolist() == [pytest.approx([near / (near + next_), next_ / (near + next_), 0.0])]


def test_as_many_training_items_as_k_are_enough_and_fewer_are_refused() -> None:
    found = votes(features(20, 0), torch.arange(20) % 2, features(2, 1), 2, 20, 0.07)
    assert found.sum(dim=1).tolist() == pytest.approx([1, 1])
    with pytest.raises(UserError, match=r"19 training items, fewer than k = 20 neighbours"):
        votes(features(19, 0), torch.zeros(19, dtype=torch.int64), features(2, 1), 2, 20, 0.07)
