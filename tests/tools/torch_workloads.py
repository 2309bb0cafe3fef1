# SPDX-License-Identifier: Apache-2.0
"""Seeded workloads in PyTorch, for comparisons of two profilers.

WORKLOADS: name -> function that prepares and returns the step to profile. From its second run on, a step does the same
work each time (the first run fills caches, states of optimizers and compiled code). Needs torch.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable

import torch_pieces
from known_torch import torch

nn = torch.nn

Step = Callable[[], None]
WORKLOADS: dict[str, Callable[[], Step]] = {}


def workload(make: Callable[[], Step]) -> Callable[[], Step]:
    """Register the function in WORKLOADS."""
    WORKLOADS[make.__name__] = make
    return make


def prepared(name: str) -> Step:
    """Return the step of a workload after two runs, which have done all one-time work."""
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore torch's deprecation warnings
        step = WORKLOADS[name]()
        for _ in range(2):
            step()

    def quiet() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step()

    return quiet


def training(model: nn.Module, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> Step:
    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        for state in optimizer.state.values():  # arguments of ops depend on the number of steps
            if "step" in state:
                state["step"].zero_()

    return step


@workload
def mlp() -> Step:
    """A perceptron under SGD with momentum."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    return training(
        model, torch.randn(8, 16), torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    )


@workload
def convnet() -> Step:
    """Convolution, batch norm, pooling and dropout, under Adam."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2),
        nn.Conv2d(8, 4, 3, stride=2, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip
    return training(model, torch.randn(2, 3, 12, 12), torch.optim.Adam(model.parameters()))


@workload
def lstm() -> Step:
    """Two layers of an LSTM, both directions."""
    model = nn.LSTM(6, 5, num_layers=2, bidirectional=True)
    x = torch.randn(7, 3, 6)

    def step() -> None:
        model.zero_grad()
        y, (h, c) = model(x)
        (y.sum() + h.sum() + c.sum()).backward()

    return step


@workload
def transformer() -> Step:
    """Two encoder layers under AdamW, an update a parameter."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.1)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return training(
        model, torch.randn(2, 5, 32), torch.optim.AdamW(model.parameters(), foreach=False)
    )


@workload
def transformer_inference() -> Step:
    """The fused path of an encoder in inference mode."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(2, 5, 32)

    def step() -> None:
        with torch.inference_mode():
            model(x)

    return step


@workload
def double_backward() -> Step:
    """A custom function, differentiated twice."""
    return torch_pieces.double_backward


@workload
def torchscript_fork() -> Step:
    """TorchScript that forks a branch and waits for it."""

    def branch(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2

    def forked(x: torch.Tensor) -> torch.Tensor:
        future = torch.jit.fork(branch, x)
        y = x
        for _ in range(100):  # the branch may be done by then
            y = torch.tanh(y)
        return y + torch.jit.wait(future)

    globals()["branch"] = branch  # where the compiler looks the name up
    scripted = torch.jit.script(forked)
    x = torch.randn(4)

    def step() -> None:
        scripted(x)
        # The waiting code continues before the branch's function has ended. torch.profiler must not be stopped
        # then: it keeps that function's event in memory that its stop gives back.
        time.sleep(0.002)

    return step


@workload
def compiled() -> Step:
    """torch.compile without code generation: graphs of forward and backward."""
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))
    fast = torch.compile(model, backend="aot_eager")
    x = torch.randn(4, 8)

    def step() -> None:
        model.zero_grad()
        fast(x).sum().backward()

    return step


@workload
def threaded_backward() -> Step:
    """Forward here, backward from another thread."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.randn(4, 8)

    def step() -> None:
        model.zero_grad()
        loss = model(x).sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()

    return step


@workload
def data_loader() -> Step:
    """Batches made in the main process."""
    data = torch.utils.data.TensorDataset(
        torch.arange(24.0).reshape(12, 2), torch.arange(12, dtype=torch.int64)
    )
    loader = torch.utils.data.DataLoader(data, batch_size=4)

    def step() -> None:
        for x, y in loader:
            (x.sum(1) + y).sum()

    return step


@workload
def sparse() -> Step:
    """Sparse tensors in both layouts, and an embedding with sparse gradients."""
    table = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    dense = torch.randn(3, 4)
    tokens = torch.tensor([1, 2, 2, 7])

    def step() -> None:
        coo = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), torch.ones(2), (4, 3))
        (coo @ dense).sum()
        (coo.coalesce().to_sparse_csr() @ dense).sum()
        optimizer.zero_grad()
        table(tokens).sum().backward()
        optimizer.step()

    return step


@workload
def nested() -> Step:
    """Nested tensors: made, used in a product, padded."""
    rows = [torch.randn(n, 4) for n in (2, 5, 3)]
    linear = nn.Linear(4, 6)

    def step() -> None:
        with torch.no_grad():
            batch = torch.nested.nested_tensor(rows)
            torch.nested.to_padded_tensor(linear(batch), 0.0)

    return step


@workload
def views_in_place() -> Step:
    """A chain of views and of updates in place, recorded by autograd."""

    def step() -> None:
        base = torch.zeros(4, 4, requires_grad=True)
        x = base.clone()
        x.view(16)[2:5].add_(1).mul_(2)
        x.t().contiguous().narrow(0, 1, 2).unsqueeze(1).expand(2, 3, 4).sum().backward()
        x.detach().transpose(0, 1).copy_(torch.ones(4, 4))

    return step


@workload
def attention() -> Step:
    """Scaled products with a causal mask, autocast to bfloat16."""
    q, k, v = (torch.randn(2, 2, 6, 8, requires_grad=True) for _ in range(3))

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            (y @ y.transpose(-2, -1)).sum().backward()

    return step


@workload
def checkpointed() -> Step:
    """Activations computed again in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    block = nn.Sequential(nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 4))
    x = torch.randn(3, 4, requires_grad=True)

    def step() -> None:
        block.zero_grad()
        checkpoint(block, x, use_reentrant=False).sum().backward()

    return step


@workload
def reentrant_backward() -> Step:
    """A backward pass inside a backward pass."""
    from torch.utils.checkpoint import checkpoint

    block = nn.Linear(4, 4)
    x = torch.randn(3, 4, requires_grad=True)

    def step() -> None:
        block.zero_grad()
        checkpoint(block, x, use_reentrant=True).sum().backward()

    return step


@workload
def annotated() -> Step:
    """PyTorch's ranges, nested, reused, with arguments, around an op that fails."""
    from torch.profiler import record_function

    x = torch.ones(3)

    def step() -> None:
        with record_function("outer"):
            with record_function("inner", "with arguments"):
                x + 1
            try:
                with record_function("failing"):
                    x + torch.ones(4)
            except RuntimeError:
                pass
            x * 2

    return step


@workload
def functional_transforms() -> Step:
    """vmap and grad of torch.func."""

    def loss(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (x @ w).square().sum()

    w, x = torch.randn(3), torch.randn(5, 3)

    def step() -> None:
        torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)

    return step


@workload
def algebra() -> Step:
    """Factorisations, transforms and complex numbers; lists of tensors as arguments."""
    a = torch.randn(5, 5)

    def step() -> None:
        q, r = torch.linalg.qr(a)
        torch.fft.rfft(torch.cat([q, r])).abs().sum()
        torch.stack(torch.split(torch.einsum("ij,jk->ik", q, r), 2)[:2]).topk(2)
        torch._foreach_add([a, a], 1.0)

    return step


@workload
def fast_ranges() -> Step:
    """Ranges of the C type that torch.compile and Triton make."""
    from torch._C._profiler import _RecordFunctionFast

    reused = _RecordFunctionFast("reused")
    x = torch.ones(3)

    def step() -> None:
        for _ in range(2):
            with reused:
                x + 1
        with _RecordFunctionFast("given", [x, 2], {"grid": 3}):
            x * 2
        with _RecordFunctionFast("a user's", [], {"scope": "user_scope"}):
            x - 1

    return step
