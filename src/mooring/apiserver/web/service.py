"""Requests into answers: authentication, routes, verbs. No sockets and no waiting; a watch is handed back to be carried
out.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api import names
from mooring.apiserver import api_errors, effort, write_pipeline
from mooring.apiserver.aside import Overtaken, in_loop
from mooring.apiserver.bodies.objects import UnknownFields, decode_object, unusable
from mooring.apiserver.bodies.patches import applied_change, change_of
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.discovery.groups import HEALTH
from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.effort import Effort, TooMuch
from mooring.apiserver.listing import ListScope, check_match, checked_scope, parsed_scope, watch_start_of
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Action, ApiCall, Json, Resource
from mooring.apiserver.server_side_apply.apply import apply
from mooring.apiserver.server_side_apply.managed import Writer
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Listing, Stored, Written
from mooring.apiserver.users import Tokens
from mooring.apiserver.web import negotiation, queries
from mooring.apiserver.web.about import About, health, is_health
from mooring.apiserver.web.messages import (
    JSON,
    TEXT,
    HttpReply,
    HttpRequest,
    WatchReply,
    error_reply,
    json_reply,
    packed,
    status_of,
)
from mooring.apiserver.web.queries import Route, WriteOptions, route_of
from mooring.apiserver.web.rendering import Rendering
from mooring.base.clock import Clock, rfc3339
from mooring.base.errors import ConfigError
from mooring.kube.errors import ApiError, Gone, MethodNotAllowed, NotFound, ServerError, Unauthorized

_METHODS: Final = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


class Service:
    """The server's answers. token: the admin's bearer token. tokens: signs for service accounts."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        clock: Clock,
        token: str,
        durability: Durability | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        if not token:
            raise ConfigError("a server without a token would serve everybody on the machine: give it one")
        self._store, self._clock, self._durability = store, clock, durability or InMemory(store)
        self._tokens = tokens
        self._about = About(store)
        self._token = token.encode()

    def answer(self, request: HttpRequest, route: Route | None, work: Effort) -> HttpReply | WatchReply:
        """The answer to a known user; an error is one, too. route: None where no kind has the path. Raises what `work`
        raises.
        """
        try:
            with effort.of_request(work):
                return self._answer(request, route)
        except ApiError as error:
            return error_reply(error)
        except TooMuch as error:
            return error_reply(api_errors.too_large(str(error)))
        except RecursionError:
            return error_reply(api_errors.bad_request("the body is nested too deeply"))

    def _health(self, request: HttpRequest) -> HttpReply | None:
        return health(request.path, request.query, self._durability.failure) if request.path[0] in HEALTH else None

    def refusal(self, request: HttpRequest) -> HttpReply | None:
        """The refusal of an unknown user, whatever the body; None for a known one."""
        if is_health(request.path) or self._is_known(request):
            return None
        return error_reply(Unauthorized("Unauthorized", reason="Unauthorized"))

    def _is_known(self, request: HttpRequest) -> bool:
        if request.is_known:
            return True
        scheme, token = (*request.headers.get("authorization", "").strip().split(" ", 2), "", "")[:2]
        return scheme.lower() == "bearer" and hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)

    def _answer(self, request: HttpRequest, route: Route | None) -> HttpReply | WatchReply:
        if "timeout" in request.query and not queries.opens_watch(request.method, route, request.query):
            queries.check_timeout(request.query)
        if route is not None:
            return self._of_resource(request, route)
        healthy = self._health(request)
        if healthy is not None:
            return healthy
        answered = self._about.answer(request)
        if answered is None:
            return self._nowhere(request.path)
        if request.method != "GET":
            raise _not_allowed()
        return answered

    def _nowhere(self, path: tuple[str, ...]) -> HttpReply:
        """The 404 or refusal for an unknown path: a known user is refused within a built-in group, elsewhere the answer
        is a plain page.

        A sub-resource that a custom object does not have gives the same 404 as a missing object.
        """
        whole = route_of(path[:-1], self._store)
        if whole is not None and not whole.is_collection and whole.resource.custom is not None:
            raise api_errors.not_found(whole.resource, whole.name)
        if path[0] == "api" or (path[0] == "apis" and self._is_built_in(path[1])):
            raise api_errors.no_such_resource()
        return HttpReply(404, b"404 page not found\n", TEXT, headers=(("X-Content-Type-Options", "nosniff"),))

    def _is_built_in(self, group: str) -> bool:
        return group != "" and any(
            resource.group == group and resource.custom is None for resource in self._store.resources
        )

    def _of_resource(self, request: HttpRequest, route: Route) -> HttpReply | WatchReply:
        """The answer as the client can read it."""
        watch = queries.opens_watch(request.method, route, request.query)
        wanted = negotiation.wanted(
            request.headers.get("accept", ""), request.query.get("includeObject", ""), watch=watch
        )
        verbs = _Verbs(self._store, request, route, self._clock.wall_s(), self._tokens, wanted.rendering)
        try:
            reply = verbs.answer()
        except ApiError as error:
            reply = error_reply(error)
        if isinstance(reply, WatchReply):
            return reply
        custom = route.resource.custom
        warnings = (
            [custom.deprecation, *verbs.warnings] if custom is not None and custom.deprecation else verbs.warnings
        )
        if warnings:
            reply = msgspec.structs.replace(reply, warnings=tuple(warnings))
        if wanted.media_type != JSON and reply.body:
            reply = msgspec.structs.replace(reply, body=negotiation.as_yaml(reply.body), content_type=wanted.media_type)
        return packed(reply, request.headers.get("accept-encoding", "")) if request.method == "GET" else reply


class _Verbs:
    """One request to one resource."""

    def __init__(
        self,
        store: ObjectStore,
        request: HttpRequest,
        route: Route,
        now: float,
        tokens: Tokens | None,
        rendering: Rendering,
    ) -> None:
        self._store, self._request, self._route, self._now, self._tokens = store, request, route, now, tokens
        self._rendering = rendering
        self.warnings: list[str] = []
        """They are sent with whatever the answer is, with a refusal, too."""
        self._resource: Resource = route.resource
        self._key = queries.key_of(route)

    def answer(self) -> HttpReply | WatchReply:
        verbs = self._collection_verbs() if self._route.is_collection else self._object_verbs()
        verb = verbs.get(self._request.method)
        if verb is None:
            raise _not_allowed()
        if self._request.method != "PUT":  # (whose body is read first)
            self._check_name()
        reply: HttpReply | WatchReply = verb()
        return reply

    def _check_name(self) -> None:
        wrong = names.path_segment(self._route.name) if self._route.name else []
        if wrong:
            raise api_errors.bad_request(f'Name parameter invalid: "{self._route.name}": {"; ".join(wrong)}')

    def _collection_verbs(self) -> dict[str, Any]:
        if self._resource.answer is not None:
            return {"POST": lambda: self._ask(self._resource)}
        if self._resource.namespaced and self._route.namespace is None:
            return {"GET": self._read_many}
        verbs = {"GET": self._read_many, "POST": self._create, "DELETE": self._delete_many}
        return verbs if self._resource.deletes_collection else {"GET": self._read_many, "POST": self._create}

    def _object_verbs(self) -> dict[str, Any]:
        action = self._resource.action(self._route.subresource)
        if action is not None:
            return {_METHODS[verb]: self._way(action, verb) for verb in action.verbs}
        verbs = {"GET": self._read, "PUT": self._replace, "PATCH": self._patch}
        return verbs if self._route.subresource else {**verbs, "DELETE": self._delete}

    def _way(self, action: Action, verb: str) -> Any:
        """The method for a sub-resource's verb."""
        if action.connect is not None:
            return partial(self._connect, action.connect)
        if action.asks is not None:
            return partial(self._ask, action.asks)
        return {"get": self._read, "update": self._replace, "patch": self._patch}[verb]

    def _connect(self, connect: Callable[[ApiCall], None]) -> HttpReply:
        """What does not raise has nothing to say."""
        connect(self._call(dict(self._request.query)))
        return HttpReply(204, b"")

    # reading

    def _read(self) -> HttpReply:
        self._store.check_reached(self._request.query.get("resourceVersion", ""))
        return HttpReply(200, self._one(self._store.get(self._resource, self._key)))

    def _read_many(self) -> HttpReply | WatchReply:
        if queries.is_watch(self._request.query):
            return self._watch()
        found = self._found()
        return HttpReply(200, self._rendering.many(self._resource, found.meta, found.items, self._now))

    def _found(self) -> Listing:
        """The objects that the query selects. Its errors come in the order of the real server's."""
        options, scope = queries.list_options(self._request.query), self._parsed_scope()
        check_match(options)
        queries.check_list(self._request.query)
        return self._store.list(self._resource, checked_scope(self._resource, scope), options)

    def _watch(self) -> HttpReply | WatchReply:
        scope, options = checked_scope(self._resource, self._parsed_scope()), queries.watch_options(self._request.query)
        try:
            watch_start_of(options, self._store.version, self._store.table(self._resource).history.floor)
        except (Gone, ServerError) as error:
            return HttpReply(200, msgspec.json.encode({"type": "ERROR", "object": status_of(error)}) + b"\n")
        return WatchReply(self._resource, scope, options, self._rendering)

    # writing

    def _create(self) -> HttpReply:
        options = queries.write_options(self._request.query, "CreateOptions")
        body, by = self._body(options), self._writer(options)
        written = self._store.create(
            self._resource, body, self._key.namespace, self._now, dry_run=options.dry_run, by=by
        )
        return self._written_reply(written)

    def _replace(self) -> HttpReply:
        options = queries.write_options(self._request.query, "UpdateOptions")
        body = self._body(options)
        if body["metadata"].get("name") == self._route.name:
            self._check_name()
        written = self._store.update(
            self._resource,
            self._key,
            body,
            self._now,
            subresource=self._route.subresource,
            dry_run=options.dry_run,
            by=self._writer(options),
        )
        return self._written_reply(written)

    def _patch(self) -> HttpReply:
        content_type = self._request.headers.get("content-type", "")
        applies = negotiation.is_apply(content_type)
        options = queries.write_options(self._request.query, "PatchOptions", applies=applies)
        if applies:
            change = self._applied(options)
        else:
            kind = negotiation.patch_type(content_type, custom=self._resource.custom is not None)
            patch = partial(negotiation.parse_patch, self._request.body)
            change = change_of(self._resource, kind, patch, options.validation, self.warnings)
        written = self._store.patch(
            self._resource,
            self._key,
            change,
            self._now,
            subresource=self._route.subresource,
            dry_run=options.dry_run,
            by=self._writer(options, applies=applies),
        )
        return self._written_reply(written)

    def _applied(self, options: WriteOptions) -> Callable[[Json], Json]:
        config, twice = negotiation.parse_apply(self._request.body)
        applied = partial(
            apply,
            self._resource,
            config=config,
            writer=options.manager,
            now=rfc3339(self._now),
            subresource=self._route.subresource,
            force=options.force,
        )
        return applied_change(self._resource, applied, config, twice, options.validation, self.warnings)

    def _delete(self) -> HttpReply:
        options = self._delete_options()
        self._warn_of_orphans(options)
        deleted = self._store.delete(self._resource, self._key, self._now, options)
        if not deleted.gone and options.orphan_dependents is False:
            return HttpReply(202, self._one(deleted.stored))
        if not deleted.gone or self._resource.delete_answers_object:
            return HttpReply(200, self._one(deleted.stored))
        details = {**api_errors.details_of(self._resource, self._key.name), "uid": deleted.stored.uid}
        return json_reply(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        )

    def _delete_many(self) -> HttpReply:
        """Answers what was found, as it was before."""
        found = self._found()
        options = self._delete_options()
        self._warn_of_orphans(options)
        for stored in found.items:
            delete = partial(self._store.delete, self._resource, stored.key, self._now, options)
            with contextlib.suppress(NotFound):  # (the list may be an older one)
                try:
                    delete()
                except Overtaken:  # (to begin anew would forget what has been deleted; in the loop nobody is quicker)
                    in_loop(delete)
        return HttpReply(200, self._rendering.many(self._resource, found.meta, found.items, self._now))

    def _warn_of_orphans(self, options: DeleteOptions) -> None:
        if self._resource.orphans and options.says_nothing:
            self.warnings.append(self._resource.orphans)

    def _ask(self, asked: Resource) -> HttpReply:
        """A question, answered: of an object, or by itself."""
        assert asked.answer is not None, f"nobody answers a {asked.kind}"
        options = queries.write_options(self._request.query, "CreateOptions")
        body = self._body(options, asked)
        write_pipeline.check_namespace(asked, body["metadata"], self._key.namespace)
        return HttpReply(201, msgspec.json.encode(asked.answer(self._call(body, dry_run=options.dry_run))))

    # their parts

    def _one(self, stored: Stored) -> bytes:
        return self._rendering.one(self._resource, stored, self._now)

    def _written_reply(self, written: Written) -> HttpReply:
        self.warnings.extend(written.warnings)
        return HttpReply(201 if written.created else 200, self._one(written.stored))

    def _writer(self, options: WriteOptions, *, applies: bool = False) -> Writer:
        return Writer(options.manager or queries.manager_of(self._request.headers.get("user-agent", "")), applies)

    def _call(self, body: Json, *, dry_run: bool = False) -> ApiCall:
        user = self._request.user
        return ApiCall(
            self._store, self._resource, self._key, body, self._now, user, dry_run=dry_run, tokens=self._tokens
        )

    def _parsed_scope(self) -> ListScope:
        query = self._request.query
        return parsed_scope(self._route.namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))

    def _body(self, options: WriteOptions, asked: Resource | None = None) -> Json:
        """asked: the kind of the body where it is not the object's."""
        resource = asked or self._resource
        message = resource.message if resource.custom is None else None
        value, problems = negotiation.parse_body(
            self._request.headers.get("content-type", ""), self._request.body, message
        )
        try:
            body, warnings = decode_object(resource, value, options.validation, problems)
        except UnknownFields as error:
            raise unusable(resource, str(error)) from error
        self.warnings.extend(warnings)
        return body

    def _delete_options(self) -> DeleteOptions:
        body = None
        if self._request.body.strip():
            message = META_MESSAGES["DeleteOptions"]
            body, _ = negotiation.parse_body(self._request.headers.get("content-type", ""), self._request.body, message)
        return queries.delete_options(self._request.query, body)


def _not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed(
        "the server does not allow this method on the requested resource", reason="MethodNotAllowed"
    )
