"""The engine process: one job at a time on loaded models.

`server` speaks with the client, `run_job` computes a job; the other files are the jobs that take more than a call.
"""
