"""From a pid to its pod: what ``/proc`` and the cgroups of the kernel say of the processes on the cards."""
