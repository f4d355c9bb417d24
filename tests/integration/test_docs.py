"""Limits that docs state are those of the code."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

# page, the sentence with its number as the group, and where the code has it
LIMITS = [
    ("docs/kubernetes.md", r"(\d+) label keys per version of a resource are indexed", "src/serve/kube/kube_forms.h",
     "KUBE_LENS_LABELS"),
]


@pytest.mark.parametrize("page,sentence,header,name", LIMITS)
def test_a_limit_in_docs_is_that_of_the_code(page, sentence, header, name):
    said = re.search(sentence, re.sub(r"\s+", " ", (TOP / page).read_text()))
    is_ = re.search(rf"#define {name}\s+(\d+)", (TOP / header).read_text())
    assert said, f"{page} does not say: {sentence}"
    assert said[1] == is_[1], f"{page} says {said[1]}, {header} has {name} {is_[1]}"


def test_docs_for_users_of_clientv3_say_what_differs_in_streams_leaders_and_fragments():
    rows = (TOP / "docs/coming-from.md").read_text()
    for word in "ErrNoLeader", "one gRPC stream per session", "in fragments only after":
        assert word in rows, f"docs/coming-from.md says nothing of {word}"
