"""What the start-up screen says."""

from antiphon.up import left_out, waiting_for


def test_the_screen_says_what_is_being_waited_for_and_why() -> None:
    assert waiting_for(["broker"]) == "waiting for broker"
    assert waiting_for(["gateway", "talker-1"]) == (
        "waiting for gateway, talker-1 (engines load the voice and speak to nobody once)"
    )
    assert waiting_for([]) == ""


def test_the_last_lines_say_which_models_are_not_served_and_why() -> None:
    assert left_out({"vivian": "config.json: rope_theta is 0.0"}) == [
        "vivian is not served: config.json: rope_theta is 0.0"
    ]
