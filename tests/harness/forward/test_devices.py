"""The virtual GPU, on a clock that moves only when it is told to."""

import time

from harness.forward.devices import Forward, HostClock, RunningClock, SimulatedDevice

from ..overlap_helpers import FakeClock


def test_a_forward_begins_at_once_on_a_device_with_nothing_to_do():
    clock = FakeClock()
    device = SimulatedDevice(clock)
    device.begin()
    clock.work(3.0)

    assert device.launch(5.0) == 0
    assert clock.time == 3.0, "a launch costs nothing"
    device.wait(0)

    assert clock.time == 8.0
    assert device.forwards() == [Forward(3.0, 5.0)]


def test_forwards_run_one_after_the_other():
    clock = FakeClock()
    device = SimulatedDevice(clock)
    device.begin()
    device.launch(5.0)
    clock.work(1.0)
    assert device.launch(2.0) == 1
    device.wait(0)
    assert clock.time == 5.0
    assert device.wait(1) == 7.0
    assert clock.time == 7.0
    clock.resume()
    clock.work(4.0)
    device.launch(1.0)
    device.wait(0)
    assert clock.time == 11.0, "what is done is not waited for"

    assert device.forwards() == [Forward(0.0, 5.0), Forward(0.0, 2.0), Forward(4.0, 1.0)]
    assert clock.time == 12.0


def test_its_time_stands_still_with_the_host_s():
    clock = FakeClock()
    device = SimulatedDevice(clock)
    device.begin()
    device.launch(5.0)
    clock.work(1.0)
    assert clock.stop() == 1.0
    clock.work(100.0)
    assert clock.resume() == clock.now() == 1.0
    device.wait(0)

    assert clock.now() == 5.0
    assert clock.time == 105.0


def test_it_stands_still_each_time():
    clock = FakeClock()
    for number in range(3):
        clock.work(1.0)
        assert clock.stop() == number + 1
        clock.work(7.0)
        assert clock.resume() == number + 1

    assert clock.time == 24.0


def test_a_new_beginning_forgets():
    clock = FakeClock()
    device = SimulatedDevice(clock)
    device.begin()
    device.launch(5.0)
    device.begin()

    assert device.forwards() == []
    assert device.launch(1.0) == 0
    assert device.forwards() == [Forward(0.0, 1.0)]


def test_beside_a_real_gpu_no_time_stands_still():
    readings = iter([1.0, 2.0, 4.0])
    clock = RunningClock(lambda: next(readings))

    assert (clock.stop(), clock.resume(), clock.now()) == (1.0, 2.0, 4.0)


def test_the_moment_at_which_a_forward_is_known_to_be_done_is_that_of_the_stopped_clock():
    clock = FakeClock()
    device = SimulatedDevice(clock)
    device.begin()
    device.launch(5.0)
    device.launch(1.0)
    clock.work(5.5)

    assert [device.wait(number) for number in (0, 1)] == [5.5, 6.0]
    clock.work(100.0)
    assert clock.now() == clock.stop() == clock.resume() == 6.0


def test_the_real_clock_is_waited_for():
    clock = HostClock()
    device = SimulatedDevice()
    moment = clock.now() + 1e-4
    clock.spin_until(moment)
    assert clock.now() >= moment

    began = time.perf_counter()
    device.begin()
    device.wait(device.launch(1e-3))
    assert time.perf_counter() - began >= 1e-3
