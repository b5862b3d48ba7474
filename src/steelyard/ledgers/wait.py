"""The wait ledger: what each demand waited for, stage by stage, from when to when. Its model is ``wait.sql``.

Built in steps that stand as dimensions, so that each can be looked at by itself: ``dim.gang`` (the latest word of each Workload, PodGroup and
Volcano job), ``dim.demand_pod`` (which demand a pod belongs to), ``dim.demand`` (what waits as one), ``dim.demand_step`` (its changes, each once,
by the best evidence; ``dim.step`` shows them with their names); ``wait.sql`` only lets each step start the stage that the next one ends. The
trick to know: what was lost is never guessed. A request counts its evictions; where fewer of them are among its steps, waits that may hide one
are rows with ``unknown_reason``, and the length of such a row is the most that its waits took together.

A row whose ``ended_at`` is NULL is still so at ``known_to_at``. Who is misconfigured, deactivated, or keeps quota after its eviction has no open
row of stage ``queue``: that is no waiting. ``definitions.queue_wait`` has the vocabulary.

Sceptic's query: ``SELECT * FROM dim.step WHERE demand_id = '...' ORDER BY at`` beside ``kubectl get workload W -o yaml`` and the audit log.
"""
