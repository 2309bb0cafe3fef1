# SPDX-License-Identifier: Apache-2.0
"""Defaults of the public functions' parameters, which programs rely on: a change of one is a change for users."""

from __future__ import annotations

import ast
import inspect
import operator
from typing import Any

import pytest

import fastprof
import fastprof.analysis
import fastprof.trace_writers

DEFAULTS = """
schedule(repeat=0, skip_first=0, skip_first_wait=0)
profile(enabled=True, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
    profile_memory=False, with_stack=False, with_flops=False, with_modules=False, experimental_config=None,
    execution_trace_observer=None, acc_events=False, use_cpu=True, use_cuda=None, use_device=None,
    use_kineto=False, custom_trace_id_callback=None, post_processing_timeout_s=None, activity_filters=None,
    all_threads=None, max_bytes=0, max_name_bytes=0, overflow="drop_newest", spill_folder=None,
    backing_file=None, memory_attribution="innermost", counters=(), python_calls=None, native=False,
    follow_children=False, tasks=True, python_memory=False)
profile.key_averages(group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False,
    include_python_functions=False)
profile.plot(kind="timeline", ax=None, limit=None)
profile.export_chrome_trace(use_python_export=False)
profile.export_html(title="", sources=True)
profile.export_stacks(metric="self_cpu_time_total")
CallFilter(files=(), exclude_files=(), modules=(), exclude_modules=(), c_calls=True, max_depth=None,
    min_duration_us=0)
tensorboard_trace_handler(worker_name=None, use_gzip=False, use_python_export=False)
record_function(args=None, shapes=None, flops=None, node_id=None)
flow(name="flow")
report_memory_usage(total_allocated_bytes=0, total_reserved_bytes=0, device_type="cpu", device_index=0)
report_out_of_memory(total_allocated_bytes=0, total_reserved_bytes=0, device_type="cpu", device_index=0)
_RecordFunctionFast(input_values=None, keyword_values=None)
_ExperimentalConfig(profiler_metrics=(), profiler_measure_per_kernel=False, verbose=False,
    performance_events=(), enable_cuda_sync_events=False, adjust_profiler_step=False,
    disable_external_correlation=False, profile_all_threads=None, capture_overload_names=False,
    record_python_gc_info=False, expose_kineto_event_metadata=False, custom_profiler_config="",
    adjust_timestamps=False, trace_only=False)
ExecutionTraceObserver.get_resources_dir(can_create=False)
ExecutionTraceObserver.get_resources_dir_for_et_path(create_dir=False)
emit_itt(enabled=True, record_shapes=False)
emit_nvtx(enabled=True, record_shapes=False)
receive_itt(replace=False)
receive_nvtx(replace=False)
load_nsys(max_memory_bytes=4294967296)
EventList(iterable=(), use_device=None, use_cuda=False, profile_memory=False, with_flops=False)
EventList.from_table(use_device=None, profile_memory=False, with_flops=False, dedupe=True, kernel=None,
    kernels=None)
EventList.instants(kinds=None)
EventList.key_averages(group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False,
    include_python_functions=False, group_by_input_shape=False)
EventList.table(sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
    max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None, max_stack_lines=None,
    flops_per_s=False, max_width=None)
EventList.tree_text(max_depth=None, min_percent=0.0, time_unit=None, max_width=None)
EventList.plot(kind="timeline", ax=None, limit=None)
EventList.export_stacks(metric="self_cpu_time_total")
EventMetadata(registers_per_thread=None, shared_memory=None, grid=None, block=None, priority=None,
    blocks_per_sm=None, warps_per_sm=None, occupancy=None, est_occupancy_pct=None, queued=None, graph_id=None,
    graph_node_id=None, stream=None, context=None, channel=None, channel_type=None, bytes=None,
    bandwidth_gb_s=None, collective_name=None, dtype=None, in_msg_nelems=None, out_msg_nelems=None,
    in_split_size=None, out_split_size=None, global_rank_start=None, global_rank_stride=None, group_size=None,
    process_group_name=None, process_group_desc=None, group_ranks=None, rank=None, src_rank=None, dst_rank=None,
    seq=None, is_async=None)
EventTable(tracks=(), coded=None, kernels=None, payload_words=None, strings=(), t0_ns=0, t1_ns=None,
    clock_error_ns=0, pid=0, process_name="", dropped=None, metadata=None, begin_ordered=False)
EventTable.with_columns(columns=None, coded=None, kernels=None, sites=None)
EventTree(kernel_rows=None, kernels=None)
EventTree.of(kernel=None, hidden=None)
EventTree.sum_subtree(closed=None)
EventTree.dedupe(names=None)
FlopEstimate(extended=False)
FunctionEvent(overload_name=None, fwd_thread=None, input_shapes=None, stack=None, scope=0, use_device=None,
    cpu_memory_usage=0, device_memory_usage=0, is_async=False, is_remote=False, sequence_nr=-1, node_id=-1,
    device_index=0, device_resource_id=None, is_legacy=False, flops=None,
    concrete_inputs=None, kwinputs=None, is_user_annotation=False, is_python_function=False, activity_type=None,
    metadata_json=None, flow_id=None, flow_type=None, flow_start=None, external_id=0, linked_correlation_id=0,
    extra_meta=None, structured_input_shapes=None, structured_input_strides=None, input_dtypes=None,
    python_id=-1, python_parent_id=-1, python_module_id=-1, use_cuda=False, cuda_memory_usage=None,
    finished=True)
FunctionEvent.append_kernel(end=None)
LegacyRecord(name="", thread_id=0, handle=0, node_id=-1, cpu_ns=0, is_remote=False, is_async=False,
    cpu_memory_usage=0, cuda_memory_usage=0, device=-1, device_us=None, sequence_nr=-1, fwd_thread_id=0,
    scope=0, flops=0, stack=())
Site(category="user_annotation", file="", function="", line=0, color=0, mask=1, kind=0, scope=7, arg_names=(),
    arg_types=(), device_type=-1, device_index=-1)
Track(pid=0, tid=0, name="", alive=True, thread_id=-1, device_kind="")
attribute_memory(rule="innermost", kernels=None)
estimate_flops(concrete_inputs=None)
load(max_bytes=17179869184, max_decompressed_bytes=17179869184, max_memory_bytes=4294967296, mmap=False,
    salvage=False)
save(progress=None)
recover(session=0, max_bytes=0)
parse_records(use_device=None, profile_memory=False, with_flops=False)
analysis.BasicEvaluation.get_optimizable_events(length=1, print_enable=True)
analysis.EventMetrics(duration_time_ns=0, self_time_ns=0, idle_time_ns=0, queue_depth=0)
analysis.Interval(queue_depth=0)
analysis.argmax(start=0, end=None)
analysis.explain(step=None, breakdown=True)
analysis.find_anti_patterns(rows=None)
analysis.index_of_first_match(start=0, end=None)
analysis.map_recorded_events_to_aten_ops_with_stack_trace(registry=None)
analysis.memory_report(device=None)
analysis.report_all_anti_patterns(should_benchmark=False, print_enable=True, json_report_dir=None)
devices.Device(python=None)
devices.DeviceSink.queue(name="")
devices.DeviceSink.add(correlation=0, text=4294967295, arguments=None)
metal.profile(mode="interval", wait_until_completed=False)
metal.start(mode="interval", wait_until_completed=False)
metal.statistics(wait_s=10.0)
metal.tables(wait_s=10.0)
trace_writers.write_chrome_capture(event_ids=None)
profiler_legacy.profile(enabled=True, use_cuda=False, record_shapes=False, with_flops=False,
    profile_memory=False, with_stack=False, with_modules=False, use_device=None)
profiler_legacy.profile.table(sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
    max_shapes_column_width=80, header=None, top_level_events_only=False)
profiler_legacy.profile.export_stacks(metric="self_cpu_time_total")
profiler_legacy.profile.key_averages(group_by_input_shape=False, group_by_stack_n=0)
"""


def listed() -> dict[str, dict[str, Any]]:
    calls = [node.value for node in ast.parse(DEFAULTS).body if isinstance(node, ast.Expr)]
    return {
        ast.unparse(call.func): {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
        for call in calls
        if isinstance(call, ast.Call)
    }


@pytest.mark.parametrize(("name", "expected"), listed().items())
def test_defaults_of_public_functions(name: str, expected: dict[str, Any]) -> None:
    parameters = inspect.signature(operator.attrgetter(name)(fastprof)).parameters
    found = {name: parameters[name].default for name in expected}
    assert {name: (value, type(value)) for name, value in found.items()} == {
        name: (value, type(value)) for name, value in expected.items()
    }
