"""An engine on another machine: kept there, bridged over ssh, its results delivered once whatever the connection does.

Here, `bridge` looks to an `EngineClient` like any engine. There, `attach` joins the connection to the `keeper`, which
owns the engine process and spools what it says.
"""
