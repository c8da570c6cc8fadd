"""Hostile input: nearly right, far too much of one thing, or nested without end."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st

BYTES_MAX = 20_000
# In `make test`; `make fuzz` has its own number.
EXAMPLES = 15 if os.environ.get("HYPOTHESIS_PROFILE") is None else settings().max_examples
# Pieces that make patterns backtrack, parsers nest, and numbers overflow. All are repeated.
PIECES = (
    " ",
    "\t",
    "\n",
    "a",
    "0",
    "9",
    "{",
    "[",
    "(",
    "((",
    '{"a":',
    "[[",
    '"',
    "'",
    "\\",
    "$(",
    "`",
    "${",
    "<<",
    "<a>",
    "<!--",
    "&a;",
    "- ",
    "- [ ] ",
    "# ",
    "* ",
    "**",
    "a: ",
    "&a *a ",
    ",",
    ";",
    "|",
    "=",
    "/",
    "../",
    "//",
    "{a,",
    "*?",
    "\x1b[1m",
    "\x1b[",
    "\u0000",
    "\u202e",
    "\ud800",
    "é",
    "test ",
    "ok ",
    "1 passed, ",
    "=== ",
    "--- FAIL: ",
    "@@ -1 +1 @@\n",
    "from a import ",
    "import (",
    "use a::{",
    "require(",
    "it('a', ",
    "#[test]\n",
    "def ",
    "'''",
    "rate limit ",
    "try again in ",
    "resets ",
    "permission denied ",
)
WORDS = st.sampled_from(PIECES)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=20),
    WORDS,
)


def json_values(leaves: st.SearchStrategy[object] = SCALARS) -> st.SearchStrategy[object]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
        max_leaves=12,
    )


@st.composite
def spoiled(draw: st.DrawFn, seeds: Sequence[str]) -> str:
    """A valid text with a few edits: a part repeated, removed, replaced or put elsewhere."""
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 60)))
        part = draw(
            st.one_of(
                st.just(""),
                st.just(text[start:end] * draw(st.sampled_from((2, 3, 50)))),
                st.text(max_size=10),
                st.builds(str.__mul__, WORDS, st.sampled_from((1, 2, 1000))),
                st.builds(json.dumps, json_values()),
            )
        )
        text = (text[:start] + part + text[end:])[:BYTES_MAX]
    return text


@st.composite
def reshaped(draw: st.DrawFn, document: object) -> str:
    """A JSON document in which some values are of another kind."""

    def walk(value: object) -> object:
        if draw(st.integers(0, 9)) == 0:
            return draw(json_values())
        if isinstance(value, dict):
            return {name: walk(member) for name, member in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return value

    return json.dumps(walk(document))


def hostile(seeds: Sequence[str]) -> st.SearchStrategy[str]:
    """Text for a parser whose valid inputs look like the seeds."""
    choices = [
        spoiled(seeds),
        st.text(max_size=200),
        st.builds(str.__mul__, WORDS, st.sampled_from((1, 3, 3000))).map(lambda t: t[:BYTES_MAX]),
        st.builds("".join, st.lists(WORDS, max_size=30)),
    ]
    documents = [document for document in map(_document, seeds) if document is not None]
    choices += [reshaped(document) for document in documents]
    return st.one_of(choices)


def _document(seed: str) -> object:
    try:
        return json.loads(seed)
    except ValueError:
        return None


def as_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
