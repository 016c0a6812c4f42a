"""Reads packs of prompts with a transformers model: each distinct token is computed once, whatever is asked after it.

A pack's tokens are nodes of a tree. A node attends only to its ancestors (a 4-D mask), its position is its depth, and
its keys and values stay while the pack is read: a later question costs only its own tokens. The output layer is applied
only where a distribution is requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audit.engines.base import TokenIds
from audit.engines.packing import Pack, n_shared, pack_prompts

_Nodes = npt.NDArray[np.int64]  # a node of a row, as the row indices of its ancestors and itself


_ATTENTION: Final = "rows of a pack"
_FEW: Final = 16  # distributions normalised together, so that intermediate values stay in the processor's cache


class PackedReader:
    """Reads packs; keeps the keys and values of the last pack's prefix, most of which the next pack shares."""

    def __init__(self, torch: Any, model: Any, *, device: str, max_nodes: int, row_nodes: int) -> None:
        from transformers import AttentionInterface

        AttentionInterface.register(_ATTENTION, _attend)
        self.torch = torch
        self.device = device
        self.dtype = model.dtype
        self._model = model
        self._max_nodes = max_nodes
        self._row_nodes = row_nodes
        self._path: list[int] = []
        self._kept: list[tuple[Any, Any]] = []

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[PackedReading]:
        """Yield a reading for each pack; nothing is kept from an earlier call."""
        self._path, self._kept = [], []
        for pack in pack_prompts(prompts, max_nodes=self._max_nodes, row_nodes=self._row_nodes):
            yield PackedReading(self, prompts, pack)
        self._path, self._kept = [], []

    def prefix(self, tokens: TokenIds) -> list[tuple[Any, Any]]:
        """Return a prefix's keys and values: for each layer shape (1, heads, tokens, width)."""
        known = n_shared(self._path, tokens)
        self._kept = [(keys[:, :, :known], values[:, :, :known]) for keys, values in self._kept] if known else []
        if fresh := list(tokens[known:]):
            positions = range(known, len(tokens))
            mask = np.tri(len(fresh), len(tokens), known, dtype=bool)
            cache = self.cache_of(self._kept)
            self.forward([fresh], [positions], mask[None], cache, asked=[(0, len(fresh) - 1)])
            self._kept = [(layer.keys, layer.values) for layer in cache.layers]
        self._path = list(tokens)
        return self._kept

    def cache_of(self, kept: Sequence[tuple[Any, Any]], n_rows: int = 1) -> Any:
        """Return a cache that starts with keys and values, the same in each row."""
        from transformers import DynamicCache

        # Created without the model's configuration, so that no layer drops tokens behind a sliding window.
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(kept):
            cache.update(keys.expand(n_rows, -1, -1, -1), values.expand(n_rows, -1, -1, -1), layer)
        return cache

    def forward(
        self,
        ids: Sequence[Sequence[int]],
        positions: Sequence[Sequence[int]],
        mask: npt.NDArray[np.bool_],
        cache: Any,
        *,
        asked: Sequence[tuple[int, int]],
    ) -> Any:
        """Return the logits after the k tokens ``asked``, shape (k, vocabulary), and add all tokens to the cache.

        ``asked`` has the row and the place in it. ``mask`` has shape (rows, most new tokens of a row, cached and new
        tokens): what each token attends to.
        """
        torch = self.torch
        starts = np.cumsum([0, *map(len, ids)])
        cells = np.concatenate([row * mask.shape[1] + np.arange(len(own)) for row, own in enumerate(ids)])
        kept = torch.from_numpy(np.array([starts[row] + place for row, place in asked], dtype=np.int64))
        where = torch.from_numpy(mask[:, None]).to(self.device)
        # Some attention implementations do not take a boolean mask.
        added = torch.zeros(where.shape, dtype=self.dtype, device=self.device)
        added.masked_fill_(~where, torch.finfo(self.dtype).min)
        config = self._model.config
        usual, config._attn_implementation = config._attn_implementation, _ATTENTION
        try:
            with torch.inference_mode():
                logits = self._model(
                    input_ids=torch.tensor([[token for row in ids for token in row]], device=self.device),
                    position_ids=torch.tensor([[place for row in positions for place in row]], device=self.device),
                    attention_mask=added,
                    use_cache=False,
                    logits_to_keep=kept.to(self.device),
                    rows=_Rows(torch, torch.from_numpy(cells).to(self.device), cache),
                ).logits
        finally:
            config._attn_implementation = usual
        return logits[0]


@dataclass(frozen=True)
class _Rows:
    """Maps the tokens of a forward pass, in one sequence, to the rows in which they attend to each other.

    Everything but attention is computed on the sequence, so a short row costs nothing beside a long one. ``cells`` has
    shape (tokens,): row × row width + place in the row.
    """

    torch: Any
    cells: Any
    cache: Any

    def spread(self, tokens: Any, n_rows: int, width: int) -> Any:
        """Return shape (rows, heads, width, size) from (1, heads, tokens, size)."""
        own = tokens[0].transpose(0, 1)
        laid = own.new_zeros(n_rows * width, *own.shape[1:]).index_copy_(0, self.cells, own)
        return laid.view(n_rows, width, *own.shape[1:]).transpose(1, 2)


def _attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    rows: _Rows,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Any, None]:
    """Attend row by row; has the signature of transformers' attention functions."""
    n_rows, _, width, _ = attention_mask.shape
    keys, values = rows.cache.update(*(rows.spread(own, n_rows, width) for own in (key, value)), module.layer_idx)
    asking = rows.spread(query, n_rows, width)
    # Heads that share keys are stacked along the width, so that the keys need no copies.
    n_sharing = asking.shape[1] // keys.shape[1]
    found = rows.torch.nn.functional.scaled_dot_product_attention(
        asking.reshape(n_rows, keys.shape[1], n_sharing * width, -1),
        keys,
        values,
        attn_mask=attention_mask.repeat(1, 1, n_sharing, 1),
        scale=scaling,
    )
    found = found.reshape(n_rows, asking.shape[1], width, -1).transpose(1, 2)
    return found.reshape(n_rows * width, *found.shape[2:])[rows.cells][None], None


class PackedReading:
    """One pack while it is read; see :class:`audit.engines.base.CachedPrompts`."""

    def __init__(self, reader: PackedReader, prompts: Sequence[TokenIds], pack: Pack) -> None:
        self.places: Sequence[int] = pack.places
        self._reader = reader
        self._prompts = {place: prompts[place] for place in pack.places}
        self._n_prefix = pack.n_prefix
        self._row_of = {place: row for row, places in enumerate(pack.rows) for place in places}
        self._before = {place: row[k - 1] for row in pack.rows for k, place in enumerate(row) if k}
        prefix = self._prompts[self.places[0]][: pack.n_prefix]
        self._cache = reader.cache_of(reader.prefix(prefix) if pack.n_prefix else [], len(pack.rows))
        self._n_columns = pack.n_prefix
        self._nodes: dict[tuple[int, tuple[int, ...]], _Nodes] = {}
        self._tokens: list[list[int]] = [[] for _ in pack.rows]
        self._depths: list[list[int]] = [[] for _ in pack.rows]
        self._columns: list[_Nodes] = [np.empty(0, dtype=np.int64) for _ in pack.rows]

    def probabilities(self, tails: Sequence[Sequence[TokenIds]], token_ids: TokenIds) -> list[npt.NDArray[np.float64]]:
        """See :class:`audit.engines.base.CachedPrompts`."""
        n_known = [len(tokens) for tokens in self._tokens]
        chains: list[list[tuple[_Nodes, _Nodes]]] = [[] for _ in self._tokens]
        asked: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
        for place, own in zip(self.places, tails, strict=True):
            row = self._row_of[place]
            for tail in own:
                path = tuple(tail)
                nodes = self._node(place, path, chains[row])
                if nodes[-1] < n_known[row]:  # its distribution was not kept: compute the node again
                    nodes = self._grown(row, nodes[:-1], [self._tokens[row][nodes[-1]]], chains[row])
                asked[place, path] = (row, int(nodes[-1]))
        rows = self._ask(n_known, chains, sorted(set(asked.values())), token_ids)
        return [
            np.array([rows[asked[place, tuple(tail)]] for tail in own]).reshape(len(own), len(token_ids))
            for place, own in zip(self.places, tails, strict=True)
        ]

    def _node(self, place: int, tail: tuple[int, ...], chains: list[tuple[_Nodes, _Nodes]]) -> _Nodes:
        """Return the node of a prompt's tail; adds new nodes to the row and to ``chains``."""
        found = self._nodes.get((place, tail))
        if found is not None:
            return found
        row = self._row_of[place]
        if tail:
            found = self._grown(row, self._node(place, tail[:-1], chains), tail[-1:], chains)
        else:
            own = self._prompts[place]
            before = self._before.get(place)
            shared: _Nodes = np.empty(0, dtype=np.int64)
            if before is not None:
                n = n_shared(self._prompts[before], own) - self._n_prefix
                shared = self._node(before, (), chains)[:n]
            rest = own[self._n_prefix + len(shared) :]
            found = self._grown(row, shared, rest, chains) if rest else shared
        self._nodes[place, tail] = found
        return found

    def _grown(self, row: int, parent: _Nodes, tokens: TokenIds, chains: list[tuple[_Nodes, _Nodes]]) -> _Nodes:
        """Add a chain of tokens to a row and return the last one's node."""
        first = len(self._tokens[row])
        new = np.arange(first, first + len(tokens))
        self._tokens[row].extend(tokens)
        depth = self._n_prefix + len(parent)
        self._depths[row].extend(range(depth, depth + len(tokens)))
        chains.append((parent, new))
        return np.concatenate([parent, new])

    def _ask(
        self,
        n_known: Sequence[int],
        chains: Sequence[Sequence[tuple[_Nodes, _Nodes]]],
        asked: Sequence[tuple[int, int]],
        token_ids: TokenIds,
    ) -> dict[tuple[int, int], npt.NDArray[np.float64]]:
        """Compute new nodes and return the probabilities after those asked about."""
        if not asked:
            return {}
        ids = [tokens[n:] for tokens, n in zip(self._tokens, n_known, strict=True)]
        positions = [depths[n:] for depths, n in zip(self._depths, n_known, strict=True)]
        width = max(map(len, ids))
        mask = np.zeros((len(ids), width, self._n_columns + width), dtype=bool)
        mask[:, :, : self._n_prefix] = True
        for row, new in enumerate(ids):
            columns = np.concatenate([self._columns[row], self._n_columns + np.arange(len(new))])
            self._columns[row] = columns
            for parent, chain in chains[row]:
                lines = (chain - n_known[row])[:, None]
                mask[row, lines, columns[parent]] = True
                mask[row, lines, columns[chain]] = np.tri(len(chain), dtype=bool)
        places = [(row, node - n_known[row]) for row, node in asked]
        logits = self._reader.forward(ids, positions, mask, self._cache, asked=places)
        self._n_columns += width
        parts = (part.float() for part in logits.split(_FEW))
        own = [part[:, list(token_ids)].double() - part.logsumexp(-1, keepdim=True).double() for part in parts]
        return dict(zip(asked, self._reader.torch.cat(own).exp().cpu().numpy(), strict=True))
