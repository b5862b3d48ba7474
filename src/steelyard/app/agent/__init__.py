"""The node agent: one small process per node that sees what the driver, the kernel and the kubelet know, and delivers it.

It reaches neither store, ledgers, answers nor surfaces, and none of the command line's libraries: ``app.main`` dispatches to it first.
"""
