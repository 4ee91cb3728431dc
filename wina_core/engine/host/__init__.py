"""The job host: the process that owns the engines and their queue, so that jobs can outlive a window."""
