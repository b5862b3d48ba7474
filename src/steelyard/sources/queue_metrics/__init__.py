"""Metrics of queue controllers and schedulers: Kueue, Volcano, kube-scheduler."""
