"""The parser of each repository of the official data sets, for rows that name none (4.x and earlier)."""

from __future__ import annotations

from typing import Final

_REPOSITORIES: Final = {
    "astropy/astropy": "astropy",
    "django/django": "django",
    "marshmallow-code/marshmallow": "marshmallow",
    "matplotlib/matplotlib": "matplotlib",
    "mwaskom/seaborn": "seaborn",
    "pallets/flask": "flask",
    "psf/requests": "requests",
    "pvlib/pvlib-python": "pvlib",
    "pydata/xarray": "xarray",
    "pydicom/pydicom": "pydicom",
    "pylint-dev/astroid": "astroid",
    "pylint-dev/pylint": "pylint",
    "pytest-dev/pytest": "pytest",
    "pyvista/pyvista": "pyvista",
    "scikit-learn/scikit-learn": "scikit",
    "sphinx-doc/sphinx": "sphinx",
    "sqlfluff/sqlfluff": "sqlfluff",
    "sympy/sympy": "sympy",
    **dict.fromkeys(("babel/babel", "facebook/docusaurus"), "jest"),
    "vuejs/core": "vitest",
    "immutable-js/immutable-js": "immutable_js",
    **dict.fromkeys(("axios/axios", "mrdoob/three.js"), "tap"),
    "preactjs/preact": "karma",
    **dict.fromkeys(("redis/redis", "valkey-io/valkey"), "redis"),
    "jqlang/jq": "jq",
    "nlohmann/json": "doctest",
    "micropython/micropython": "micropython_test",
    "fmtlib/fmt": "googletest",
    **dict.fromkeys(
        ("caddyserver/caddy", "gin-gonic/gin", "gohugoio/hugo", "hashicorp/terraform", "prometheus/prometheus"),
        "gotest",
    ),
    **dict.fromkeys(("apache/druid", "google/gson", "javaparser/javaparser"), "maven"),
    "projectlombok/lombok": "ant",
    **dict.fromkeys(("apache/lucene", "reactivex/rxjava"), "gradle_custom"),
    **dict.fromkeys(
        ("briannesbitt/carbon", "laravel/framework", "php-cs-fixer/php-cs-fixer", "phpoffice/phpspreadsheet"), "phpunit"
    ),
    "jekyll/jekyll": "jekyll",
    **dict.fromkeys(("faker-ruby/faker", "fluent/fluentd"), "ruby_unit"),
    **dict.fromkeys(("fastlane/fastlane", "jordansissel/fpm", "rubocop/rubocop"), "rspec_transformed_json"),
    **dict.fromkeys(
        (
            *("astral-sh/ruff", "burntsushi/ripgrep", "nushell/nushell", "sharkdp/bat"),
            *("tokio-rs/axum", "tokio-rs/tokio", "uutils/coreutils"),
        ),
        "cargo",
    ),
}


def parser_for_repository(repository: str) -> str | None:
    """The short name of the parser for ``owner/name``; None where it is unknown."""
    return _REPOSITORIES.get(repository)
