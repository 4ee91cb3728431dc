"""An OpenAI-compatible server of one model: transformers' own behind a gatekeeper."""
