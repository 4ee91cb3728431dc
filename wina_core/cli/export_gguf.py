"""`wina export-gguf`: a plain model as a GGUF file, by llama.cpp's own converter."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.tables import print_pairs
from wina_core.cli.terminal import terminal_reporter
from wina_core.files.disk import file_size
from wina_core.files.llama_cpp import find_converter
from wina_core.jobs import ExportGgufJob
from wina_core.records.exports import GgufType
from wina_core.specs import ModelSource


def export_gguf(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help='A folder of `wina rotate`, any model, or "demo".')],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new GGUF file.")],
    converter: Annotated[
        Path | None,
        typer.Option(help="llama.cpp's folder or its convert_hf_to_gguf.py; else LLAMA_CPP's, or the PATH's."),
    ] = None,
    outtype: Annotated[
        GgufType, typer.Option(help="Type of the weights; auto: the 16-bit one nearest to the stored one.")
    ] = "auto",
    text: Annotated[str, typer.Option(help='Text that checks the file: a file, or "demo:NAME".')] = "demo:heldout",
    memory: options.Memory = None,
    as_json: options.Json = False,
) -> None:
    """Write a dense model, rotated without shortcuts or not at all, as a GGUF file by llama.cpp's own converter.

    With the optional extra `peers`, its perplexity in llama.cpp is compared with the folder's in transformers.
    """
    options.allow_memory(memory)
    job = ExportGgufJob(
        model=ModelSource(location=folder),
        file=str(file.absolute()),
        converter=str(find_converter(converter)),
        outtype=outtype,
        text=text,
    )
    with terminal_reporter() as reporter:
        from wina_core.compute.session.model_session import Session
        from wina_core.engine.server.export_gguf import export_gguf as export

        record = export(job, Session(), reporter)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    found = record.perplexity
    print_pairs({"saved in": record.file, "size": file_size(record.bytes)})
    if found is None:
        typer.echo("Not checked in llama.cpp: the optional extra `peers` is not installed.", err=True)
        return
    print_pairs(
        {
            f"perplexity of {found.tokens} tokens of {found.text}, transformers": found.transformers,
            "the same, llama.cpp": found.llama_cpp,
            "tokens in llama.cpp": "as in transformers" if found.same_tokens else "others than in transformers",
        }
    )
