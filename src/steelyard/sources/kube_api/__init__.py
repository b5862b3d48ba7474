"""The Kubernetes API: pods, nodes, events and dynamic resource allocation, as ``kubectl get ... -o json`` prints them.

Readers here take single objects; whoever calls them splits Lists first. ``objects.OBJECT_READERS`` says which reader takes which kind.
"""
