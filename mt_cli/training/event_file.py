"""The losses and scores of `metrics.jsonl` as a file that TensorBoard shows. It needs tensorboardX, an extra."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterator
from typing import Any

from mt_cli.config import TrainingConfig
from mt_cli.errors import missing_extra
from mt_cli.files import cannot_write
from mt_cli.run.run_dir import RunDir


def refuse_missing_tensorboard(training: TrainingConfig) -> None:
    """Raises UsageError where the config asks for such a file and no package can write it."""
    if training.tensorboard and importlib.util.find_spec("tensorboardX") is None:
        raise missing_extra("training.tensorboard", "tensorboardX", "tensorboard")


class EventFile:
    """Appends records to the run's event file. Each start makes a new one, which begins with all that the run's metrics have
    and replaces the one before, so that no step is there twice. Raises RunDirError when it cannot be written."""

    def __init__(self, run: RunDir, started: float):
        """`started`: when the training did, earlier starts included, in seconds of `time.monotonic`. TensorBoard's clock is
        the training's, too: the time between starts does not count."""
        from tensorboardX.event_file_writer import EventsWriter  # tensorboardX's own writers above it write in threads
        from tensorboardX.proto.event_pb2 import SessionLog

        self._folder, self._began = run.tensorboard, time.time() - time.monotonic() + started
        with self._writing():
            self._folder.mkdir(exist_ok=True)
            for file in self._folder.glob("events.out.tfevents.*"):
                file.unlink()
            self._writer = EventsWriter(str(self._folder / "events"))
        # A TensorBoard that is open forgets what it has read from the file before.
        self._write(0, 0.0, session_log=SessionLog(status=SessionLog.START))
        clock = run.logs.records(run.timing_file)
        seconds = {record.get("step"): record.get("elapsed_seconds") for record in clock}
        for record in run.logs.records(run.metrics_file):
            if type(record.get("step")) is int:  # else it is damaged
                self.append(record, seconds.get(record["step"]) or 0.0)

    def append(self, record: dict[str, Any], elapsed_seconds: float) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=key, simple_value=x) for key, x in record.items() if isinstance(x, float)]
        self._write(record["step"], elapsed_seconds, summary=Summary(value=values))

    def flush(self) -> None:
        with self._writing():
            self._writer.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # was flushed before, or reported
            self._writer.close()

    def _write(self, step: int, elapsed_seconds: float, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        with self._writing():
            self._writer.write_event(Event(step=step, wall_time=self._began + elapsed_seconds, **content))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise cannot_write(self._folder, error) from None
