"""Open a model, gate it at 50 %, write a text with it, and measure what the gates cost.

python resources/examples/gate_a_model.py                  the demo, in some seconds
python resources/examples/gate_a_model.py smollm2-135m     a small real model; `wina model fetch smollm2-135m` brings it
"""

import sys

import wina_core

PROMPT = "A list is"
SPARSITY = 0.5
TOKENS = 1024  # of each text; 16384 for numbers to rely on


def main(location: str) -> None:
    model = wina_core.open_model(location, dtype="float32")
    prompt = model.tokenizer(PROMPT, return_tensors="pt").input_ids
    with wina_core.gate(model, SPARSITY, "wina") as gates:
        text = model.tokenizer.decode(model.model.generate(prompt, max_new_tokens=24, do_sample=False)[0])
    print(text)
    print(f"{gates.gated_sparsity:.1%} of the gated weights were not read")

    measured = wina_core.measure(model, SPARSITY, "wina", tokens=TOKENS, name="A gated model")
    print(measured.query("metric == 'kl'")[["task", "value", "stderr"]])


if __name__ == "__main__":
    main(*sys.argv[1:] or ["demo"])
