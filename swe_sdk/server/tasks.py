"""The task that a request is about: one that the server has loaded, or one that the request brings along."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from swe_sdk.errors import InputError, UnknownTask
from swe_sdk.model.environment import DirectorySource, GitSource, ImageEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.server.models import GradeRequest, TaskSource, VerifyRequest

_REMOTE = re.compile(r"(?:https?|git|ssh)://|\w[\w.+-]*@\w[\w.-]*:")
"""Repositories that git fetches over a network, and no other transport: ``file:`` and ``ext:`` are this machine's."""
_LOCAL_IMAGE = re.compile(r"[/~.]|(?:docker-archive|docker-daemon|oci-archive|oci):")
"""Images that Apptainer makes of this machine's folders and archives; a .sif file is one already."""


class FoundTask(NamedTuple):
    """A task, and where it comes from."""

    task: Task
    source: TaskSource


class Tasks:
    """Finds the tasks of requests. A loaded one comes first: nobody can bring easier tests for it along."""

    def __init__(self, loaded: TaskSet, *, inline: bool = True, local_sources: bool = False) -> None:
        self.loaded = loaded
        self._by_id = {task.instance_id: task for task in loaded}
        self._inline = inline
        self._local_sources = local_sources

    def of_verify(self, request: VerifyRequest) -> FoundTask:
        """The task in a request, see :class:`~swe_sdk.server.models.VerifyRequest`. Raises an ``InputError``."""
        name, row = _row(request)
        if not isinstance(name, str):
            problem = "responses_create_params.metadata has no instance_id"
            raise InputError(problem, remedy="give the task's id there, and its row as instance_dict")
        if name in self._by_id:
            return FoundTask(self._by_id[name], "loaded")
        self._require_inline(name)
        (task,) = load_tasks([row], unknown_fields="ignore")
        if task.instance_id != name:  # it might be that of a loaded one
            problem = f"instance_dict is the row of {task.instance_id!r}, and the instance_id beside it is {name!r}"
            raise InputError(problem, remedy="give both the same id")
        return FoundTask(self._allowed(task), "request")

    def of_grade(self, request: GradeRequest) -> FoundTask:
        """The task of a request. Raises an ``InputError``."""
        if request.instance_id is not None:
            return FoundTask(self.loaded[request.instance_id], "loaded")
        assert request.task is not None
        task = _from_private(request.task)
        known = self._by_id.get(task.instance_id)
        if known is not None:
            if task.grading != known.grading:
                problem = f"{task.instance_id}: the task has other tests than the one that the server has loaded"
                raise InputError(problem, remedy="give it another id, or have the server load this one")
            return FoundTask(known, "loaded")
        self._require_inline(task.instance_id)
        return FoundTask(self._allowed(task), "request")

    def _require_inline(self, name: str) -> None:
        if not self._inline:
            raise UnknownTask(name, self.loaded.ids)

    def _allowed(self, task: Task) -> Task:
        if not self._local_sources and _is_of_this_machine(task):
            problem = f"{task.instance_id}: the task's sources are a folder of the server's machine"
            raise InputError(problem, remedy="name a repository by URL, or have the server load the task at its start")
        return task


def _row(request: VerifyRequest) -> tuple[Any, Mapping[str, Any]]:
    """The instance id, and the row as :func:`load_tasks` takes it; fields without a meaning are not the task's."""
    metadata = request.responses_create_params.metadata or {}
    if metadata.get("instance_id") is not None:
        return metadata["instance_id"], {"responses_create_params": {"metadata": metadata}}
    row = request.model_extra or {}
    return row.get("instance_id"), row


def _from_private(task: Mapping[str, Any]) -> Task:
    try:
        return Task.model_validate(task)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(("task", *map(str, first["loc"])))
        raise InputError(f"{place}: {first['msg']}", remedy="send what Task.private() gives") from None


def _is_of_this_machine(task: Task) -> bool:
    if isinstance(task.environment, ImageEnvironment):
        image = task.environment.image
        return _LOCAL_IMAGE.match(image) is not None and not image.endswith(".sif")
    source = task.environment.source
    if isinstance(source, GitSource):
        return _REMOTE.match(source.url) is None
    return isinstance(source, DirectorySource)
