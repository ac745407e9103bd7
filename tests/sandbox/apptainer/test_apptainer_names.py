"""Under which names the .sif file of an image is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.providers.apptainer.library import search
from swe_sdk.sandbox.providers.apptainer.naming import exact_stems, holds, search_terms

PUBLISHED = "swebench/sweb.eval.x86_64.django_1776_django-11099:latest"


@pytest.mark.parametrize(
    ("image", "file"),
    [
        (PUBLISHED, "sweb.eval.x86_64.django_1776_django-11099_latest"),  # what `apptainer pull` calls it
        (PUBLISHED, "sweb.eval.x86_64.django_1776_django-11099"),
        (PUBLISHED, "sweb.eval.x86_64.django__django-11099"),
        (PUBLISHED, "sweb.eval.x86_64.django_s_django-11099"),
        (PUBLISHED, "django__django-11099"),
        (PUBLISHED, "django_1776_django-11099"),
        (PUBLISHED, "swe-bench.django_s_django-11099"),
        (PUBLISHED, "verified_django__django-11099_v2"),
        ("sweb.eval.x86_64.Org__Repo-1:latest", "org_1776_repo-1"),
        ("sweb.eval.x86_64.Org__Repo-1:latest", "Org_s_Repo-1"),
        ("django__django-11099", "sweb.eval.x86_64.django_1776_django-11099"),
        ("namanjain12/pillow_final:3185262e", "pillow_final_3185262e"),
        ("python-pillow__Pillow-3185262e", "pillow_final_3185262e"),
        ("registry.example:5000/team/image@sha256:" + "0" * 64, "image"),
        ("ghcr.io/org/image:v1.2", "image_v1.2"),
    ],
)
def test_an_image_is_found_under_any_of_its_names(tmp_path: Path, image: str, file: str) -> None:
    path = tmp_path / f"{file}.sif"
    path.touch()
    for other in ("django__django-1109", "django__django-110990", "pillow_final_3185262f", "image_v1", "unrelated"):
        (tmp_path / f"{other}.sif").touch()
    assert search(tmp_path, image) == path


@pytest.mark.parametrize("other", ["django__django-110990", "xdjango__django-11099", "django__django-11099-2"])
def test_the_file_of_another_instance_is_not_taken(tmp_path: Path, other: str) -> None:
    (tmp_path / f"{other}.sif").touch()
    assert search(tmp_path, "django__django-11099") is None


def test_a_tag_that_is_named_must_be_in_the_name(tmp_path: Path) -> None:
    (tmp_path / "pillow_final.sif").touch()
    (tmp_path / "pillow_final_aaaa.sif").touch()
    assert search(tmp_path, "namanjain12/pillow_final:bbbb") is None


def test_an_exact_name_wins_over_one_that_holds_it(tmp_path: Path) -> None:
    exact = tmp_path / "django__django-11099.sif"
    for path in (exact, tmp_path / "old.django__django-11099.sif"):
        path.touch()
    assert search(tmp_path, PUBLISHED) == exact


def test_several_files_that_may_be_meant_are_named(tmp_path: Path) -> None:
    for name in ("a.django__django-11099", "b.django__django-11099"):
        (tmp_path / f"{name}.sif").touch()
    with pytest.raises(CreateFailed, match=r"a\.django__django-11099\.sif, b\.django") as raised:
        search(tmp_path, PUBLISHED)
    assert "path" in raised.value.remedy


def test_a_directory_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert search(tmp_path / "missing", PUBLISHED) is None


_PART = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,8}", fullmatch=True)


@given(_PART, _PART, st.integers(0, 99999), st.sampled_from(["__", "_1776_", "_s_"]))
def test_all_ways_to_write_an_instance_lead_to_the_same_files(org: str, repo: str, number: int, written: str) -> None:
    plain = f"{org}__{repo}-{number}"
    image = f"swebench/sweb.eval.x86_64.{org}{written}{repo}-{number}:latest"
    for separator in ("__", "_1776_", "_s_"):
        for name in (plain.replace("__", separator, 1), plain.replace("__", separator, 1).lower()):
            assert name in exact_stems(image)
            assert any(holds(f"prefix.{name}", term) for term in search_terms(image))
            assert not any(holds(f"{name}7", term) for term in search_terms(image))


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_none(image: str) -> None:
    assert all("/" not in stem for stem in exact_stems(image))
    assert search_terms(image)
