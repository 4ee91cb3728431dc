"""The files of lm-eval that define the paper's tasks, and LAMBADA."""

STOCK_FILES = {
    "piqa": "piqa/piqa.yaml",
    "arc_easy": "arc/arc_easy.yaml",
    "arc_challenge": "arc/arc_challenge.yaml",
    "winogrande": "winogrande/default.yaml",
    "hellaswag": "hellaswag/hellaswag.yaml",
    "sciq": "sciq/sciq.yaml",
    "openbookqa": "openbookqa/openbookqa.yaml",
    "boolq": "super_glue/boolq/default.yaml",
    "lambada_openai": "lambada/lambada_openai.yaml",
    "mmlu": "mmlu/default/_mmlu.yaml",
    "gsm8k": "gsm8k/gsm8k.yaml",
    "crows_pairs_english_gender": "crows_pairs/crows_pairs_english_gender.yaml",
    "crows_pairs_english_race_color": "crows_pairs/crows_pairs_english_race_color.yaml",
    "crows_pairs_english_religion": "crows_pairs/crows_pairs_english_religion.yaml",
    "longbench_single": "longbench/_longbench_single.yaml",
    "longbench_multi": "longbench/_longbench_multi.yaml",
    "longbench_fewshot": "longbench/_longbench_fewshot.yaml",
    "longbench_code": "longbench/_longbench_code.yaml",
    "longbench_summarization": "longbench/_longbench_summarization.yaml",
    "longbench_synthetic": "longbench/_longbench_synthetic.yaml",
    "humaneval": "humaneval/humaneval.yaml",
}
"""File of each task below lm-eval's folder of tasks; reading the names of all its tasks takes long."""
