"""A fake for the Kubernetes API server, and tests of the client.

::

    async with ApiServer() as server:                  # tests/apiserver/server.py
        node = server.add_node("node-1", kubelet_version="v1.37.0")
        server.put("resourceclaims", claim)            # as someone else would
        ApiClient(server.access)                       # or of a file: server.kubeconfig(path)
        ...
        assert [one.verb for one in server.writes] == ["create"]

It serves ``resourceslices``, ``resourceclaims`` and ``nodes``: get, list (field selectors,
``limit`` and ``continue``), watch, create, update, delete, with the status, reason and
preconditions of the real server, and refuses ResourceSlices that this would refuse
(``validation.py``).

What goes wrong is switched on:

- ``with server.failing(status=503, retry_after=1, verbs={"list"}, times=2): ...``; instead of
  ``status``: ``hangs=True``, ``content=b"..."`` (garbage, or a
  function that makes it; with ``encoding="gzip"``, as if compressed), ``endless=b"..."`` (over and
  over), ``cut=True`` (half an answer), ``held=asyncio.Event()`` (it is sent when that is set);
- ``await server.stop()``, ``await server.start()``: not listening meanwhile, at the same port;
- ``server.compact()``: what was before is forgotten, so that watches get 410;
- ``server.end_watches()``, ``server.cut_watches()``, ``server.tell_watches(b"garbage\\n")``,
  ``server.bookmark()``;
- ``server.dropped = {"spec.devices.taints"}``: fields that it does not know;
- ``server.wipe("node-1")``: as a kubelet does that starts; ``server.collect_garbage()``: objects
  whose owner is missing;
- ``server.token = "..."``: it accepts no other.

``ApiServer(certificates=make_certificates(directory))`` serves TLS;
``server.service_account(directory)`` writes what a pod finds.
"""
