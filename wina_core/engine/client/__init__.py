"""Engine processes as their clients see them.

`client` drives one process; `pool` drives several, with the queue (`job_queue`) and the shares of this machine
(`resources`). `end_texts` puts the end of a process into words, `rest` is what a job
still misses, and `background` is a process that computes jobs after this program has ended. Nothing here imports torch.
"""
