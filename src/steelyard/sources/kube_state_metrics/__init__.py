"""kube-state-metrics: what a Prometheus remembers of pods that are long gone."""
