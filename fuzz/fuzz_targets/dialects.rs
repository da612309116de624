#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| signaling_fuzz::dialects(data));
