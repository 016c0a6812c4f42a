"""Reads packs of prompts by a transformers model: each distinct token is computed once, whatever is asked after it.

A pack's tokens are nodes of a tree. A node attends to its ancestors alone (a 4-D mask), stands at the position that is
its depth, and keeps its keys and values as long as the pack is read: a continuation that is asked about later costs its
own tokens and no more. The output layer is applied only where a distribution is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from audit.engines.base import TokenIds
from audit.engines.packing import Pack, n_shared, pack_prompts

_Nodes = npt.NDArray[np.int64]
"""A node of a row, given by itself and its ancestors: their numbers in the row, from the row's first token on."""


class PackedReader:
    """Reads packs; keeps the keys and values of the last pack's prefix, which the next one mostly shares.

    Parameters
    ----------
    torch
        The library.
    model
        A causal model of transformers.
    device
        Where it is.
    max_nodes, row_nodes
        As of :func:`audit.engines.packing.pack_prompts`.
    """

    def __init__(self, torch: Any, model: Any, *, device: str, max_nodes: int, row_nodes: int) -> None:
        self.torch = torch
        self.device = device
        self.dtype = model.dtype
        self._model = model
        self._max_nodes = max_nodes
        self._row_nodes = row_nodes
        self._path: list[int] = []
        self._kept: list[tuple[Any, Any]] = []

    def read(self, prompts: Sequence[TokenIds]) -> Iterator[PackedReading]:
        """Yield a reading of each pack; nothing is kept from an earlier call."""
        self._path, self._kept = [], []
        for pack in pack_prompts(prompts, max_nodes=self._max_nodes, row_nodes=self._row_nodes):
            yield PackedReading(self, prompts, pack)
        self._path, self._kept = [], []

    def prefix(self, tokens: TokenIds) -> list[tuple[Any, Any]]:
        """Return keys and values of a prefix, for each layer of shape (1, heads, tokens, width)."""
        known = n_shared(self._path, tokens)
        self._kept = [(keys[:, :, :known], values[:, :, :known]) for keys, values in self._kept] if known else []
        if fresh := list(tokens[known:]):
            positions = np.arange(known, len(tokens))
            mask = np.tri(len(fresh), len(tokens), known, dtype=bool)
            cache = self.cache_of(self._kept)
            self.forward(np.array([fresh]), positions[None], mask[None], cache, n_logits=1)
            self._kept = [(layer.keys, layer.values) for layer in cache.layers]
        self._path = list(tokens)
        return self._kept

    def cache_of(self, kept: Sequence[tuple[Any, Any]], n_rows: int = 1) -> Any:
        """Return a cache that begins with keys and values, the same in each of its rows."""
        from transformers import DynamicCache

        # Without the model's configuration no layer of it forgets what lies behind a sliding window.
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(kept):
            cache.update(keys.expand(n_rows, -1, -1, -1), values.expand(n_rows, -1, -1, -1), layer)
        return cache

    def forward(
        self,
        ids: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int64],
        mask: npt.NDArray[np.bool_],
        cache: Any,
        *,
        n_logits: int,
    ) -> Any:
        """Return the logits of the last ``n_logits`` tokens of each row, and add all tokens to the cache.

        Parameters
        ----------
        ids, positions
            Shape (rows, tokens).
        mask
            Shape (rows, tokens, tokens of the cache and these): what each token attends to.
        cache
            Of the tokens before.
        n_logits
            At least 1.
        """
        torch = self.torch
        where = torch.from_numpy(mask[:, None]).to(self.device)
        # Not every attention takes a mask of booleans.
        added = torch.zeros(where.shape, dtype=self._model.dtype, device=self.device)
        added.masked_fill_(~where, torch.finfo(self._model.dtype).min)
        with torch.inference_mode():
            return self._model(
                input_ids=torch.from_numpy(ids).to(self.device),
                position_ids=torch.from_numpy(positions).to(self.device),
                attention_mask=added,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=n_logits,
            ).logits


class _Asked(NamedTuple):
    """Where a distribution is to be read."""

    place: int
    tail: tuple[int, ...]
    row: int
    node: int


class PackedReading:
    """One pack while it is read; see :class:`audit.engines.base.Reading`."""

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
        """See :class:`audit.engines.base.Reading`."""
        n_known = [len(tokens) for tokens in self._tokens]
        chains: list[list[tuple[_Nodes, _Nodes]]] = [[] for _ in self._tokens]
        asked: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
        for place, own in zip(self.places, tails, strict=True):
            row = self._row_of[place]
            for tail in own:
                path = tuple(tail)
                nodes = self._node(place, path, chains[row])
                if nodes[-1] < n_known[row]:  # computed before, without its distribution: once more
                    nodes = self._grown(row, nodes[:-1], [self._tokens[row][nodes[-1]]], chains[row])
                asked[place, path] = (row, int(nodes[-1]))
        rows = self._ask(n_known, chains, sorted(set(asked.values())), token_ids)
        return [
            np.array([rows[asked[place, tuple(tail)]] for tail in own]).reshape(len(own), len(token_ids))
            for place, own in zip(self.places, tails, strict=True)
        ]

    def _node(self, place: int, tail: tuple[int, ...], chains: list[tuple[_Nodes, _Nodes]]) -> _Nodes:
        """Return the node of a prompt's tail; new nodes are added to the row, and to ``chains``."""
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
        """Add tokens to a row, one after another, and return the last one's node."""
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
        """Compute the nodes that are new and return the probabilities after those that are asked about."""
        if not asked:
            return {}
        n_rows = len(self._tokens)
        asked_of: list[list[int]] = [[] for _ in range(n_rows)]
        for row, node in asked:
            asked_of[row].append(node)
        n_logits = max(map(len, asked_of))
        # Logits are taken of the last places, so the nodes that are asked about come last.
        orders = [
            [*sorted(set(range(n_known[r], len(self._tokens[r]))) - set(asked_of[r])), *asked_of[r]]
            for r in range(n_rows)
        ]
        width = max(n_logits + len(order) - len(own) for order, own in zip(orders, asked_of, strict=True))
        ids = np.zeros((n_rows, width), dtype=np.int64)
        positions = np.zeros((n_rows, width), dtype=np.int64)
        mask = np.zeros((n_rows, width, self._n_columns + width), dtype=bool)
        place_of: dict[tuple[int, int], tuple[int, int]] = {}
        for r, (order, own) in enumerate(zip(orders, asked_of, strict=True)):
            n_others = len(order) - len(own)
            at = np.concatenate([np.arange(n_others), np.arange(width - len(own), width)]).astype(np.int64)
            new = np.array(order, dtype=np.int64)
            ids[r, at] = np.array(self._tokens[r])[new]
            positions[r, at] = np.array(self._depths[r])[new]
            columns = np.empty(len(self._tokens[r]), dtype=np.int64)
            columns[: n_known[r]] = self._columns[r]
            columns[new] = self._n_columns + at
            self._columns[r] = columns
            mask[r, at, : self._n_prefix] = True
            for parent, chain in chains[r]:
                lines = columns[chain] - self._n_columns
                mask[r, lines[:, None], columns[parent]] = True
                mask[r, lines[:, None], columns[chain]] = np.tri(len(chain), dtype=bool)
            padding = np.setdiff1d(np.arange(width), at, assume_unique=True)
            mask[r, padding, self._n_columns + padding] = True  # nobody sees it; a line without any is no softmax
            for k, node in enumerate(own):
                place_of[r, node] = (r, n_logits - len(own) + k)
        logits = self._reader.forward(ids, positions, mask, self._cache, n_logits=n_logits)
        self._n_columns += width
        torch = self._reader.torch
        r, k = (torch.tensor(side, device=logits.device) for side in zip(*place_of.values(), strict=True))
        chosen = logits[r, k].float()
        own = chosen[:, list(token_ids)].double() - chosen.logsumexp(-1, keepdim=True).double()
        return dict(zip(place_of, own.exp().cpu().numpy(), strict=True))
