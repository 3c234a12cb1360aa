"""The embedded API server: pure store, rules per kind, HTTP.

It has real resource versions, conflicts, watches that resume, patches, status subresources, finalizers and validation.
The store is synchronous and knows neither a clock nor I/O: `ObjectStore` has the steps of each write, a `Resource`
describes a kind, and each kind's part in the steps stands in `rules`. `LocalCluster` offers the store as a port in
process, and `web` serves it over TLS. Around them: `codecs` and `bodies` (shapes declared as text, JSON and protobuf
checked against them), `server_side_apply`, `custom`, `cel` and `regexp` (custom kinds and their rules, decision 0005),
`controllers` (dependents follow their owners, deleted namespaces empty themselves), `disk`, `discovery` and `printers`,
`identity`.

One request has a bounded cost (`Effort`), and a write's consequences are carried out in portions, one in a turn of the
loop. A long request runs on a thread beside the loop, which asks the loop to write; if another write has overtaken it,
it begins anew. The server sends nothing, not even refusals and watch events, before the store's newest version is
committed.
"""
