use filesize::{format_size, unit};

#[test]
fn bytes() {
    assert_eq!(format_size(0), "0 B");
    assert_eq!(format_size(1023), "1023 B");
}

#[test]
fn one_decimal() {
    assert_eq!(format_size(1024), "1.0 KiB");
    assert_eq!(format_size(1536), "1.5 KiB");
    assert_eq!(format_size(5 * 1024 * 1024 + 300_000), "5.3 MiB");
}

#[test]
fn largest_unit() {
    assert_eq!(format_size(3 << 50), "3072.0 TiB");
}

#[test]
#[should_panic]
fn no_such_unit() {
    unit(5);
}

#[test]
#[ignore = "takes a while"]
fn every_size_of_the_first_gibibyte() {
    assert!((0..1u64 << 30).all(|bytes| !format_size(bytes).is_empty()));
}
